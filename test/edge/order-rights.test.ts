/** Rights of an order at a site. */

import test from 'ava';
import { allow, decide } from '#acl';
import type { Order, OrderWork } from '#edge/orders/order.ts';
import { checkOrderRights } from '#edge/orders/run-order.ts';
import { policyOf } from '../helpers/policies.ts';

type JobWork = Omit<Extract<OrderWork, { kind: 'job' }>, 'kind' | 'tgt'>;

/** Returns a function that checks the order of a job at a site with this rule. */
function siteWith(resource: {
  readonly fun: string;
  readonly environment?: string;
}): (work: JobWork) => Promise<void> {
  const subject = { user: 'fred', eauth: 'centre' };
  const policy = policyOf([allow('orders', { subject, action: 'publish', resource })]);
  const host: Parameters<typeof checkOrderRights>[0] = {
    policy: () => policy,
    decide: (question) => decide(question, policy),
    resolveTarget: async () => ({ minions: ['web1'], missing: [], isNarrowed: false }),
  };
  return (work) => {
    const order: Order = {
      ...{ id: '1'.repeat(20), site: 'north', by: { name: 'fred', groups: [] } },
      ...{ issuedAt: 0, validUntil: 1 },
      work: { kind: 'job', tgt: 'web1', ...work },
    };
    return checkOrderRights(host, order);
  };
}

const denied = { code: 'ERR_ORDER_DENIED' };

test('the rules of a site apply to keyword arguments in the list of arguments', async (t) => {
  const check = siteWith({ fun: 'state.apply', environment: 'test' });
  const jobFor = (saltenv: string): JobWork => ({
    fun: 'state.apply',
    arg: ['app', { __kwarg__: true, saltenv }],
  });
  await t.notThrowsAsync(check(jobFor('test')));
  await t.throwsAsync(check(jobFor('prod')), denied);
});

test('a site refuses a job whose arguments Salt would interpret', async (t) => {
  const check = siteWith({ fun: 'state.apply' });
  const checkAny = siteWith({ fun: '*' });
  const slot = '__slot__:salt:cmd.run(id)';
  await t.notThrowsAsync(check({ fun: 'state.apply', arg: ['app'], kwarg: { pillar: { x: 1 } } }));
  for (const [more, message] of [
    [{ kwarg: { pillar: { x: slot } } }, /^pillar\.x must not contain __slot__:/],
    [{ arg: ['app', { __kwarg__: true, pillar: { x: slot } }] }, /^pillar\.x must not contain/],
    [{ arg: ['app', slot] }, /^arg\.1 must not begin with __slot__:/],
    [{ arg: ['app', `pillar={x: '${slot}'}`] }, /name=value/],
  ] as const) {
    const work = { fun: 'state.apply', ...more };
    await t.throwsAsync(check(work), { ...denied, message });
    await t.notThrowsAsync(checkAny(work), 'the rule permits everything');
  }
});
