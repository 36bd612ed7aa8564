/**
 * Restricted users get the same error code on each interface when a request takes too much work.
 */

import test from 'ava';
import { json, mayRead, startApi } from '../helpers/salt-api.ts';

const brackets = '['.repeat(100_000);
const refusal = { status: 400, error: 'ERR_WORK_LIMIT' };

test('a costly target is refused by name on each client with a target', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  for (const user of ['admin', 'limited', 'scoped']) {
    const token = await login(user);
    for (const [client, tgt, tgt_type] of [
      ['local', brackets, 'glob'],
      ['local_async', 'x{1000}'.repeat(100), 'pcre'],
      ['local_batch', Array(90).fill('E@x{1000}').join(' or '), 'compound'],
      ['local_subset', `a:${brackets}`, 'grain'],
    ]) {
      const answer = await run(token, {
        client,
        tgt,
        tgt_type,
        fun: 'test.ping',
        batch: 1,
      });
      t.is(answer.status, 400, `${user} ${client}`);
      t.like(answer.json, refusal);
      t.regex(
        answer.text,
        /(?:a glob|a regular expression|compilation of regular expressions) takes/,
      );
    }
  }
});

test('costly globs are refused by runners and wheel functions', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  for (const [client, fun, kwarg] of [
    ['wheel', 'key.name_match', { match: brackets }],
    ['wheel', 'key.finger', { match: `${brackets},web1` }],
    ['wheel', 'key.accept', { match: brackets }],
    ['runner', 'jobs.list_jobs', { search_function: brackets }],
    ['runner', 'jobs.list_jobs', { search_target: brackets }],
    ['runner', 'cache.grains', { tgt: brackets }],
    ['runner', 'match.compound_matches', { expr: brackets, minion_id: 'web1' }],
  ] as const) {
    const answer = await run(token, { client, fun, kwarg });
    t.regex(answer.text, /a glob takes more than 16384 characters/, fun);
  }
  const found = await run(token, { client: 'wheel', fun: 'key.name_match', match: 'web*,db*' });
  t.regex(found.text, /web1/);
});

test('the patterns of an event reader are limited', async (t) => {
  const { ask, login } = await startApi(t, { minions: ['web1'], config: mayRead('limited', '*') });
  for (const user of ['admin', 'limited']) {
    const headers = json(await login(user));
    for (const match of [
      Array(2).fill('x'.repeat(20_000)),
      ['['.repeat(30_000), 'a'.repeat(3000)],
    ]) {
      const request = { method: 'POST', path: '/rpc/events.subscribe', headers, body: { match } };
      const answer = await ask(request);
      t.is(answer.status, 400);
      t.regex(answer.text, /ERR_WORK_LIMIT.*match takes more than 32768 characters/);
    }
  }
});
