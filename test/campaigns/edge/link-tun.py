#!/usr/bin/env python3
"""A slow, lossy, interrupted IP link between this namespace and another one, without tc netem.

link-tun.py NETNS [--rate BITS/S] [--delay S] [--loss P] [--queue S] [--up S --down S] [--seed N] [--net 10.231.0]
link-tun.py --check NETNS: exits with 0 if this process can create links.

Needs root and /dev/net/tun. Makes the namespace if it is missing. This side has address NET.1, NETNS has NET.2.
`--delay` is one way. Packets wait in a queue of `--queue` seconds of the rate; more are dropped, as a router does.
Commands on stdin change it: `down`, `up`, `rate 50000`, `delay 2`, `loss 0.05`, `stats`, `quit`. End of input ends it.
"""
import argparse, fcntl, heapq, json, os, random, selectors, struct, subprocess, sys, time

p = argparse.ArgumentParser()
p.add_argument('netns')
for name, default in (('rate', 50000), ('delay', 2.0), ('loss', 0.05), ('queue', 2.0), ('up', 0.0), ('down', 0.0), ('seed', 1)):
    p.add_argument('--' + name, type=float, default=default)
p.add_argument('--net', default='10.231.0')
p.add_argument('--check', action='store_true')
a = p.parse_args()
run = lambda *c, check=True: subprocess.run(c, check=check, stderr=None if check else subprocess.DEVNULL)
rnd, ns = random.Random(int(a.seed)), a.netns

def tun(name):
    fd = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, 0x400454CA, struct.pack('16sH', name.encode(), 0x0001 | 0x1000))  # TUNSETIFF, IFF_TUN | IFF_NO_PI
    return fd

if a.check:  # Creates one device, which ends with this process.
    tun('sbl%dc' % os.getpid())
    sys.exit()
tag = ns[:12]
here, there = tun(tag + 'a'), tun(tag + 'b')
if ns not in subprocess.run(['ip', 'netns'], capture_output=True, text=True).stdout.split():
    run('ip', 'netns', 'add', ns)
run('ip', 'link', 'set', tag + 'b', 'netns', ns)
run('ip', 'addr', 'add', a.net + '.1', 'peer', a.net + '.2', 'dev', tag + 'a')
run('ip', '-n', ns, 'addr', 'add', a.net + '.2', 'peer', a.net + '.1', 'dev', tag + 'b')
run('ip', 'link', 'set', tag + 'a', 'mtu', '1500', 'up')
for dev in (tag + 'b', 'lo'):
    run('ip', '-n', ns, 'link', 'set', dev, 'up')
run('ip', '-n', ns, 'route', 'add', 'default', 'dev', tag + 'b', check=False)
print('ready', flush=True)

start, up, count = time.monotonic(), True, 0
free = {here: 0.0, there: 0.0}  # when the wire is free again, by the side that sends
wire, stats = [], {k: 0 for k in ('sent', 'bytes', 'lost', 'overflow', 'cut')}
is_up = lambda now: up and (not a.down or (now - start) % (a.up + a.down) < a.up)
sel = selectors.DefaultSelector()
for fd in (here, there, 0):
    sel.register(fd, selectors.EVENT_READ)
while True:
    now = time.monotonic()
    while wire and wire[0][0] <= now:
        _, _, fd, data = heapq.heappop(wire)
        if is_up(now): os.write(fd, data)
        else: stats['cut'] += 1
    for key, _ in sel.select(max(0, wire[0][0] - now) if wire else 1):
        if key.fd == 0:
            lines = os.read(0, 4096).decode().splitlines()
            if not lines: sys.exit(0)
            for words in filter(None, (line.split() for line in lines)):
                if words[0] == 'quit': sys.exit(0)
                if words[0] in ('up', 'down'): up = words[0] == 'up'
                elif words[0] == 'stats': print(json.dumps(stats), flush=True)
                else: setattr(a, words[0], float(words[1]))
            continue
        try: data = os.read(key.fd, 65536)
        except BlockingIOError: continue
        if data[0] >> 4 != 4: continue
        now, to = time.monotonic(), there if key.fd == here else here
        if not is_up(now): stats['cut'] += 1; continue
        if free[key.fd] - now > a.queue: stats['overflow'] += 1; continue
        free[key.fd] = max(now, free[key.fd]) + len(data) * 8 / a.rate
        stats['sent'] += 1; stats['bytes'] += len(data); count += 1
        if rnd.random() < a.loss: stats['lost'] += 1; continue
        heapq.heappush(wire, (free[key.fd] + a.delay, count, to, data))
