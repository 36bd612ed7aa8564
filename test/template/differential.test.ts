/** Cases of the differential campaign, with the result that Salt 3006.23 and 3007.13 both gave. */

import { readFileSync } from 'node:fs';
import test from 'ava';
import type { Question } from '../campaigns/differential/cases.ts';
import { explanationIds } from '../campaigns/differential/explained.ts';
import { Ours } from '../campaigns/differential/ours.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

type Vector = Question & { readonly value: string };

const fixture = new URL('../fixtures/differential.json', import.meta.url);
const vectors: readonly Vector[] = JSON.parse(readFileSync(fixture, 'utf8'));

for (const kind of ['yaml', 'template', 'target', 'pillar', 'orchestration'] as const) {
  test(`random cases of the kind ${kind} give what Salt gives`, async (t) => {
    const ours = new Ours(temporaryDirectory(t));
    t.teardown(() => ours.close());
    const cases = vectors.filter((vector) => vector.kind === kind);
    t.true(cases.length >= 10);
    for (const it of cases) {
      t.is((await ours.answer(it)).value, it.value, JSON.stringify(it));
    }
  });
}

test('docs/compatibility/differential.md has a row for each explained difference', (t) => {
  const text = readFileSync(
    new URL('../../docs/compatibility/differential.md', import.meta.url),
    'utf8',
  );
  t.deepEqual(
    explanationIds.filter((id) => !text.includes(`| \`${id}\` `)),
    [],
  );
});
