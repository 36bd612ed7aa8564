/** A file that loops to its limit: whoever else asks meanwhile is answered. */
import path from 'node:path';
import test from 'ava';
import { resolveMasterConfig } from '../../../master/index.ts';
import { openTree } from '../../helpers/pillar.ts';
import { planFiles } from '../reactor/plan-files.ts';

const loops = '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}';

/** What is answered before something is done. */
async function answeredDuring(
  work: Promise<unknown>,
  ask: () => Promise<unknown>,
): Promise<number> {
  let isDone = false;
  const end = (): void => {
    isDone = true;
  };
  work.then(end, end);
  let count = 0;
  for (; !isDone; count += 1) {
    await ask();
    // Lets messages of other threads in.
    await new Promise(setImmediate);
  }
  return count;
}

test('while a pillar loops to its limit others get theirs', async (t) => {
  const { pillar, configure } = await openTree(t, {
    'base/top.sls': "base:\n  'evil': [loops]\n  'good*': [fine]\n",
    'base/loops.sls': `\n${loops}\na: 1\n`,
    'base/fine.sls': 'a: {{ grains.id }}\n',
  });
  const { limits } = resolveMasterConfig({});
  configure({ limits: { ...limits, pillarSteps: Number.POSITIVE_INFINITY } });
  const ask = (id: string) =>
    pillar.provide({ id, grains: { id }, saltenv: undefined, pillarenv: undefined });
  await ask('good');
  const evil = ask('evil');
  let number = 0;
  const answered = await answeredDuring(evil, async () => {
    number += 1;
    const id = `good${number}`;
    t.like(await ask(id), { pillar: { a: id } });
  });
  t.true(answered >= 20, `${answered} answered`);
  t.like((await evil).pillar, {
    _errors: ["Rendering SLS 'loops' failed. Please see master log for details."],
  });
  const before = pillar.made;
  const again = ask('evil');
  const stillAnswered = await answeredDuring(again, () => ask('good1'));
  t.true(stillAnswered >= 20, `${stillAnswered} answered`);
  t.is(pillar.made, before + 1, 'what ended by the clock is not kept');
});

test('while a file for the reactor loops to its limit other events are planned', async (t) => {
  const { directory, plan } = await planFiles(
    t,
    {
      'loops.sls': `${loops}`,
      'fine.sls': 'a:\n  local.test.ping: [{tgt: {{ data.id }}}]\n',
    },
    { steps: 3_000_000 },
  );
  const event = { tag: 'a/b', sender: 'web1', data: undefined, body: { id: 'web1' } };
  const evil = plan(path.join(directory, 'loops.sls'), event);
  const answered = await answeredDuring(evil, async () => {
    const { calls } = await plan(path.join(directory, 'fine.sls'), event);
    t.is(calls.length, 1);
  });
  t.true(answered >= 20, `${answered} answered`);
  t.like(await evil, { calls: [], refused: [{ reason: 'render' }] });
});
