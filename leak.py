import os,gc,re,sys,ctypes
from pathlib import Path
from legible.server.overview import overview_of
def rss(): return int(re.search(r"VmRSS:\s+(\d+)",open("/proc/self/status").read())[1])//1024
p=Path("/tmp/open-work/demo")
mode=sys.argv[1]
m=[]
for i in range(14):
    overview_of(p)
    if mode=="gc": gc.collect()
    if mode=="trim": gc.collect(); ctypes.CDLL("libc.so.6").malloc_trim(0)
    m.append(rss())
print(mode,m, len(gc.get_objects()))
from collections import Counter
gc.collect(); a=Counter(type(o).__name__ for o in gc.get_objects()); overview_of(p); gc.collect(); b=Counter(type(o).__name__ for o in gc.get_objects()); b.subtract(a); print([x for x in b.most_common(8)])
