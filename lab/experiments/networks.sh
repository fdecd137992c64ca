#!/bin/bash
# The table of networks on one machine with a GPU, within some minutes: studies, distillation and mending on all cores,
# further training of the PPO policies on the GPU.
#
#   lab/experiments/networks.sh OUT MINUTES CORES STEPS [BEFORE]
#
# STEPS: environment steps of further training, about as many as a study and a distillation take.
# OUT gets records.tgz (records and logs), networks.tgz (rules and networks), trained.tgz (a zoo with policies that were
# trained further), training*.tgz (checkpoints of PAC-Man small), pending.tgz (jobs that are not done) and compiled.tgz.
# BEFORE is the OUT of an earlier call, which is gone on with. $SCRATCH is where it works, $TABLE has more options of the
# table's program, $TRAIN of the trainings (--unfinished writes the policies of those that are not done).
#
# Afterwards: unpack the records into lab/experiments/results/networks and the trained policies into a folder ZOO, then
#   python -m lab.experiments.network_table --trained ZOO && python -m lab.experiments.write_results
set -u
out=$1 minutes=$2 cores=$3 steps=$4 before=${5:-}
export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 PYTHONUNBUFFERED=1
began=$(date +%s)
left() { awk "BEGIN { print $minutes - ($(date +%s) - $began) / 60 }"; }
work=${SCRATCH:-/tmp/networks}
mkdir -p "$work"/{scratch,records,networks,training} "$out"
mkdir -p "$work"/zoo && cp -r zoo/. "$work"/zoo
# Compiled functions belong to sources of the same time; where there were none, that time is set.
if [ -e "$work"/dated ] || ! find src -name '*.nbi' | grep -q .; then
    find src -name '*.py' -exec touch -d 2026-01-01T00:00:00 {} +
    touch "$work"/dated
fi
if [ -n "$before" ]; then
    tar xzf "$before"/compiled.tgz -C . 2>/dev/null
    for part in records networks; do tar xzf "$before"/$part.tgz -C "$work"/$part 2>/dev/null; done
    for file in "$before"/training*.tgz; do tar xzf "$file" -C "$work"/training 2>/dev/null; done
    tar xzf "$before"/trained.tgz -C "$work"/zoo 2>/dev/null
    tar xzf "$before"/pending.tgz -C "$work"/scratch 2>/dev/null
fi

# Further training: alone at once, with rules (and a margin loss that holds them) as soon as the studies of all five policies have some.
train() { # LEVEL MORE…
    level=$1; shift
    python -m lab.experiments.train_zoo --group "$level"-ppo-extended --steps "$steps" --threads 1 --zoo "$work"/zoo \
        --out "$work"/training --minutes "$(left)" --report-seconds 60 ${TRAIN:-} "$@" >> "$work"/records/training.log 2>&1
}
has_rules() { # LEVEL: whether every study has found its rules, or none
    for seed in 0 1 2 3 4; do
        ls "$work"/networks/Pacman"$1"-ppo-$seed/guided.safetensors "$work"/records/Pacman"$1"-ppo-$seed.json 2>/dev/null | grep -q . || return 1
    done
}
train_level() { # LEVEL as in the names of environments
    zoo=$work/zoo/Pacman$1/ppo name=${1,,}
    [ -e "$zoo"/4-extended.safetensors ] || train "$name" &
    until has_rules "$1"; do sleep 2; done
    [ -e "$zoo"/4-rules.safetensors ] || train "$name" --rules "$work"/networks --margin 1
    wait
}
for level in Small Medium Original; do train_level $level & done

python -m lab.experiments.network_table --cores "$cores" --minutes "$(left)" --scratch "$work"/scratch --out "$work"/records \
    --networks "$work"/networks --pack "$out"/pending.tgz ${TABLE:-} 2>&1 | tee -a "$work"/records/networks.log
kill $(jobs -p) 2>/dev/null
for part in records networks; do tar czf "$out"/$part.tgz -C "$work"/$part .; done
(cd "$work"/training && for rules in "" -rules; do
    ls small-ppo-extended$rules.* > /dev/null 2>&1 && tar czf "$out"/training$rules.tgz small-ppo-extended$rules.*
done)
(cd "$work"/zoo && tar czf "$out"/trained.tgz Pacman*/ppo/*-extended.safetensors Pacman*/ppo/*-rules.safetensors 2>/dev/null)
find src -name '*.nb?' | tar czf "$out"/compiled.tgz -T -
python -m lab.experiments.network_table --table --out "$work"/records
ls -la "$out"
