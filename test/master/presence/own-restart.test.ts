import test from 'ava';
import type { PresentMinion } from '../../../master/api/jobs.ts';
import { needingOwnRestart } from '../../../master/jobs/presence.ts';
import { factsOf } from '../../../minion-protocol/index.ts';

function present(id: string, transport: string): PresentMinion {
  return { id, transport, address: '192.0.2.1', by: 'announcement', isSure: true };
}

test('minions over WebSocket, and of 3007 and later over TCP, do not come back by themselves', (t) => {
  const releases: Readonly<Record<string, string>> = {
    old: '3006.16',
    new: '3007.8',
    newer: '3008.0+12.gabc',
    zero: '3007.9',
  };
  const factsFor = (id: string) => {
    const saltversion = releases[id];
    return { grains: saltversion === undefined ? undefined : factsOf({ saltversion }) };
  };
  const minions = [
    present('old', 'tcp'),
    present('new', 'tcp'),
    present('newer', 'tcp'),
    present('unknown', 'tcp'),
    present('web', 'ws'),
    present('zero', 'zeromq'),
  ];
  t.deepEqual(needingOwnRestart(minions, factsFor), ['new', 'newer', 'web']);
});
