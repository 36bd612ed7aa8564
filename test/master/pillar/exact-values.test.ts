/** Values reach a minion and return from it with the types that they have under Salt. */

import path from 'node:path';
import test from 'ava';
import { isWireMap, type WireValue } from '#minion-protocol';
import { Float } from '#template/python/values.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { collect, startFleet } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const pillarText = `whole: 1.0
list: [2.0, 3, {x: -4.0}]
keys: {~: none, 2: int, 3.0: float}
bytes: !!binary /w==
big: 18446744073709551615
date: 2024-01-02
`;

test('floats, null keys, bytes and integers of a pillar and of a return keep their types', async (t) => {
  const directory = temporaryDirectory(t);
  layOut(directory, { 'pillar/top.sls': "base: {'*': [a]}\n", 'pillar/a.sls': pillarText });
  const { master } = await startFleet(t, {
    ids: ['m1'],
    grains: { whole: new Float(5) },
    config: { pillarRoots: { base: [path.join(directory, 'pillar')] } },
  });
  const run = async (fun: string, arg: readonly WireValue[] = []): Promise<WireValue> => {
    const updates = await collect(master.jobs.run({ tgt: 'm1', fun, arg }));
    const found = updates.find((update) => update.type === 'return');
    return found?.return ?? null;
  };
  const pillar = await run('pillar.items');
  if (!isWireMap(pillar)) return t.fail();
  t.deepEqual(pillar.whole, new Float(1));
  t.deepEqual(pillar.list, [new Float(2), 3, { x: new Float(-4) }]);
  const keys = new Map<WireValue, WireValue>([
    [null, 'none'],
    [2, 'int'],
    [new Float(3), 'float'],
  ]);
  t.deepEqual(pillar.keys, keys);
  t.deepEqual(pillar.bytes, new Uint8Array([255]));
  t.is(pillar.big, 18446744073709551615n);
  t.is(pillar.date, '2024-01-02');
  t.deepEqual(await run('grains.item', ['whole']), { whole: new Float(5) });
  const { return: grains } = await master.runners.run({ fun: 'cache.grains', arg: ['m1'] });
  t.deepEqual(Object(grains).m1?.whole, new Float(5));
});
