// Questions to the server: answers at once, or streamed in pieces.

export class Refused extends Error {}

async function post(name, body, signal) {
  let response;
  try {
    response = await fetch(`/api/${name}`, {
      method: "POST", body: JSON.stringify(body), signal,
      headers: { "content-type": "application/json", "x-legible": "1" },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The workbench does not answer: it has stopped, or the connection is gone. Start 'legible open' again and open the address that it prints.");
  }
  if (response.ok) return response;
  const found = await response.json().catch(() => ({}));
  throw new Refused(found.error || `The workbench answered with status ${response.status}.`);
}

export class Api {
  constructor() { this.subject = 0; }

  async ask(name, body = {}, signal = undefined) {
    return (await post(name, { subject: this.subject, ...body }, signal)).json();
  }

  // Call `onMessage` for every message until the stream ends; errors are thrown in words.
  async stream(name, body, onMessage, signal = undefined) {
    const response = await post(name, { subject: this.subject, ...body }, signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) {
        if (!event.startsWith("data: ")) continue;
        const message = JSON.parse(event.slice(6));
        if (message.kind === "error") throw new Refused(message.error);
        onMessage(message);
      }
    }
  }
}

export function complain(box, words) {
  box.textContent = /^[a-z]+[ ,:]/.test(words) ? words.charAt(0).toUpperCase() + words.slice(1) : words; // names of files stay
  box.hidden = false;
}

// Run something that asks the server; show in words, in a box, what goes wrong.
export async function saying(box, action) {
  box.hidden = true;
  try {
    return await action();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    complain(box, error instanceof Refused ? error.message : `Unexpected: ${error.message}`);
    if (!(error instanceof Refused)) console.error(error);
    return undefined;
  }
}

// Return a function that calls another one only after a pause.
export function debounced(action, milliseconds) {
  let timer = 0;
  return (...words) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...words), milliseconds);
  };
}
