/** How much is kept of pillars that were made. */
import test from 'ava';
import { PillarCache, type PillarKey, Reads } from '../../../master/data/pillar.ts';
import { traverseFacts } from '../../../minion-protocol/index.ts';
import { noSources } from '../../helpers/pillar.ts';

function key(id: string, pillarenv?: string): PillarKey {
  return { id, saltenv: undefined, pillarenv, lower: '', rules: '' };
}

/** What is made of nothing stays good. */
function keep(cache: PillarCache, its: PillarKey, text: string): Promise<void> {
  const pillar = { text };
  return cache.keep(its, { pillar, proven: pillar }, new Reads(noSources).madeFrom);
}

async function textOf(cache: PillarCache, its: PillarKey): Promise<unknown> {
  const found = await cache.find(its, {});
  return found && traverseFacts(found.pillar, ['text']);
}

test('the pillar that was not asked for longest goes first', async (t) => {
  const cache = new PillarCache({ sources: noSources, maxBytes: 3500 });
  for (const id of ['a', 'b']) await keep(cache, key(id), id.repeat(1000));
  t.is(await textOf(cache, key('a')), 'a'.repeat(1000));
  await keep(cache, key('c'), 'c'.repeat(1000));
  t.is(await textOf(cache, key('b')), undefined);
  t.is(await textOf(cache, key('a')), 'a'.repeat(1000));
  t.is(await textOf(cache, key('c')), 'c'.repeat(1000));
  t.true(cache.bytes <= 3500);
});

test('a minion cannot fill the cache by naming environments', async (t) => {
  const cache = new PillarCache({ sources: noSources });
  for (let index = 0; index < 100; index += 1)
    await keep(cache, key('a', `env${index}`), 'x'.repeat(100));
  t.true(cache.bytes < 1500);
  t.is(await textOf(cache, key('a', 'env99')), 'x'.repeat(100));
  t.is(await textOf(cache, key('a', 'env0')), undefined);
});

test('one minion gets nothing that was made for another, or for another environment', async (t) => {
  const cache = new PillarCache({ sources: noSources });
  await keep(cache, key('a', 'dev'), 'secret');
  t.is(await textOf(cache, key('b', 'dev')), undefined);
  t.is(await textOf(cache, key('a')), undefined);
  t.is(await textOf(cache, key('a', 'dev')), 'secret');
});

test('what is made anew takes the place of what was there, and its bytes', async (t) => {
  const cache = new PillarCache({ sources: noSources });
  await keep(cache, key('a'), 'x'.repeat(1000));
  await keep(cache, key('a'), 'y');
  t.is(await textOf(cache, key('a')), 'y');
  t.true(cache.bytes < 600);
});

test('a pillar of more values than a peer may send is given again whole', async (t) => {
  const cache = new PillarCache({ sources: noSources });
  const list = Array.from({ length: 300_000 }, (_, index) => index);
  const pillar = { list };
  await cache.keep(key('a'), { pillar, proven: pillar }, new Reads(noSources).madeFrom);
  const found = await cache.find(key('a'), {});
  t.deepEqual(found && traverseFacts(found.pillar, ['list', '299999']), 299_999);
});
