/** Templates that exceed the limits of the main thread, and texts that are parsed for minions. */

import test from 'ava';
import { LargeTemplates } from '#salt/render/large-templates.ts';
import { ParsedFileCache } from '#salt/render/renderer.ts';

test('a template that is large for one minion is large for all after four minions', (t) => {
  const large = new LargeTemplates();
  for (let count = 0; count < 200; count += 1) large.add('web', 'greedy');
  t.true(large.has('web', 'greedy'));
  t.false(large.has('web', 'm1'));
  t.false(large.has('db', 'greedy'));
  for (const minion of ['m1', 'm2']) large.add('web', minion);
  t.false(large.has('web', 'other'));
  large.add('web', 'm3');
  t.true(large.has('web', 'other'));
});

test('one minion cannot evict the large templates of others', (t) => {
  const large = new LargeTemplates();
  large.add('web', 'm1');
  for (let count = 0; count < 20_000; count += 1) large.add(`own ${count}`, 'greedy');
  t.true(large.has('web', 'm1'));
  t.false(large.has('own 0', 'greedy'));
  t.true(large.has('own 19999', 'greedy'));
});

test('texts that are parsed for one minion leave those of others in the cache', async (t) => {
  const parsed: string[] = [];
  const read = async ({ text }: { readonly text: string }): Promise<string> => {
    parsed.push(text);
    return text;
  };
  const cache = new ParsedFileCache({ read }, { perOwner: 500, total: 1000 });
  const task = (text: string) => ({ kind: 'read', format: 'yaml', text, name: 'a' }) as const;
  await cache.read(task('of others'), 'm1');
  for (let count = 0; count < 100; count += 1) {
    await cache.read(task(`${count}`.padEnd(80)), 'greedy');
  }
  await cache.read(task('of others'), 'm2');
  t.is(parsed.filter((text) => text === 'of others').length, 1);
});
