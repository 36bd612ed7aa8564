/** Limit of the bytes of results that wait in responses. */
import test from 'ava';
import type { UserApi } from '#master';
import type { WireValue } from '#minion-protocol';
import { Budget } from '#runtime';
import { AnswerBytes } from '#salt-api/answer-bytes.ts';
import { apiLimits } from '#salt-api/limits.ts';
import { runLocal } from '#salt-api/minion-clients.ts';

test('returns of commands count for the user until the response ends', async (t) => {
  const budget = new Budget(apiLimits.answerBytes, { perOwner: 10_000, total: 15_000 });
  let sent = 0;
  const run: UserApi['jobs']['run'] = async function* () {
    for (const minion of ['a', 'b', 'c', 'd', 'e']) {
      sent += 1;
      const text = 'x'.repeat(3000);
      const done = { fun: 'test.echo', retcode: 0, success: true, receivedAt: 0, return: text };
      yield { type: 'return', jid: '1', minion, ...done };
    }
  };
  const unused = (): never => {
    throw new Error('not used');
  };
  const jobs = { run, batch: unused, publish: unused };
  const bytes = new AnswerBytes(budget);
  const deps = {
    ...{
      user: { jobs },
      warnings: new Set<string>(),
      hold: (it: WireValue) => bytes.take('u', it),
    },
    readWords: async () => ({ arg: [], kwarg: {} }),
  };
  const low = { client: 'local', tgt: '*', fun: 'test.echo' };
  const { signal } = new AbortController();
  await t.throwsAsync(runLocal(deps, low, signal), { code: 'ERR_LIMIT', message: /answerBytes/ });
  t.is(sent, 4);
  bytes.release();
  t.is(budget.total, 0);
  bytes.take('u', 'x'.repeat(20_000));
  t.is(budget.total, 0);
});
