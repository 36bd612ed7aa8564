/** Threads are shared between the owners of their tasks: minions, users and addresses. */

import test from 'ava';
import { ArgumentReader } from '#master';
import { Renderer } from '#salt/render/renderer.ts';
import { toSourceFile } from '#salt/render/source-file.ts';

/** Returns the owners of the tasks in the order in which they ended. */
async function orderOf(
  owners: readonly string[],
  run: (owner: string) => Promise<unknown>,
): Promise<string> {
  // Both threads run before the test, because their start may take longer than all tasks.
  await Promise.all(['x', 'y'].map(run));
  const order: string[] = [];
  await Promise.all(owners.map(async (owner) => run(owner).then(() => order.push(owner))));
  return order.join('');
}

const many = [...'aaaaaaaaaaaa', 'b'];

test('a long text of one caller does not wait for those of another', async (t) => {
  const reader = new ArgumentReader(1_000_000);
  t.teardown(() => reader.close());
  const text = `[${'a, '.repeat(20_000)}a]`;
  const order = await orderOf(many, (owner) => reader.readYaml(owner, text));
  t.true(order.indexOf('b') < 9, order);
});

test('a rendering for one minion does not wait for those of another', async (t) => {
  const renderer = new Renderer();
  t.teardown(() => renderer.close());
  const loop = `{% for a in range(9) %}{% for b in range(999) %}{{ b }}{% endfor %}{% endfor %}`;
  const text = `${loop}${'#'.repeat(20_000)}`;
  const source = { path: 'slow.sls', digest: 'slow', text };
  const file = toSourceFile(source, { trimBlocks: false, lstripBlocks: false });
  const order = await orderOf(many, (owner) =>
    renderer.render(
      file,
      {
        kind: 'pillar',
        ...{ saltenv: 'base', sls: 'slow', defaults: new Map(), id: owner, grains: {}, opts: {} },
        ...{ pillar: new Map(), raisesOnMissing: false, mergeLists: false, nodegroups: {} },
        masterOptions: {},
        ...{ asked: [], answers: new Map(), trimBlocks: false, lstripBlocks: false },
        ...{ limits: {}, now: 0, foreign: undefined },
      },
      { known: new Map(), read: async () => {} },
      undefined,
      owner,
    ),
  );
  t.true(order.indexOf('b') < 9, order);
});
