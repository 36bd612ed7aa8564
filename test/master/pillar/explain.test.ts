/** Where a value comes from, whatever the size of a tree. */
import test from 'ava';
import { originsOf } from '../../../master/data/pillar.ts';
import { openTree } from '../../helpers/pillar.ts';

const request = { id: 'web1', grains: { id: 'web1' }, saltenv: undefined, pillarenv: undefined };

test('an explanation names the files that lie uppermost, and counts the others', async (t) => {
  const names = Array.from({ length: 250 }, (_, index) => `s${String(index).padStart(3, '0')}`);
  const files = Object.fromEntries(names.map((name) => [`base/${name}.sls`, `a: ${name}\n`]));
  const { pillar } = await openTree(t, { ...files, 'base/top.sls': "base:\n  '*': ['s*']\n" });
  const { layers } = await pillar.compile(request);
  const { files: named, omitted } = originsOf(layers, 'a');
  t.deepEqual(
    named.map(({ sls }) => sls),
    names.slice(50),
  );
  t.is(omitted, 50);
  t.deepEqual(originsOf(layers, 'b'), { files: [], omitted: 0 });
});

test('a pillar has only so many includes', async (t) => {
  const include = (count: number): string => `include: [${Array(count).fill('b').join(', ')}]\n`;
  const tree = { 'base/top.sls': "base:\n  '*': [a]\n", 'base/b.sls': 'b: 1\n' };
  const few = await openTree(t, { ...tree, 'base/a.sls': include(300) });
  t.like(await few.pillar.provide(request), { pillar: { b: 1 } });
  const many = await openTree(t, { ...tree, 'base/a.sls': include(20_001) });
  await t.throwsAsync(many.pillar.provide(request), {
    code: 'ERR_PILLAR_FILE',
    message: /20000 includes/,
  });
});
