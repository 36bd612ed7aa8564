/** Rights of an order at a site. */

import test from 'ava';
import { allow, decide } from '#acl';
import type { Order } from '#edge/orders/order.ts';
import { checkOrderRights } from '#edge/orders/run-order.ts';
import type { ExtensionHost } from '#master';
import { policyOf } from '../helpers/policies.ts';

test('the rules of a site apply to keyword arguments in the list of arguments', async (t) => {
  const policy = policyOf([
    allow('states', {
      subject: { user: 'fred', eauth: 'centre' },
      action: 'publish',
      resource: { fun: 'state.apply', environment: 'test' },
    }),
  ]);
  const host: Pick<ExtensionHost, 'decide' | 'resolveTarget'> = {
    decide: (question) => decide(question, policy),
    resolveTarget: async () => ({ minions: ['web1'], missing: [], isNarrowed: false }),
  };
  const orderFor = (saltenv: string): Order => ({
    ...{ id: '1'.repeat(20), site: 'north', by: { name: 'fred', groups: [] } },
    ...{ issuedAt: 0, validUntil: 1 },
    work: {
      ...{ kind: 'job', tgt: 'web1', fun: 'state.apply' },
      arg: ['app', { __kwarg__: true, saltenv }],
    },
  });
  await t.notThrowsAsync(checkOrderRights(host, orderFor('test')));
  await t.throwsAsync(checkOrderRights(host, orderFor('prod')), { code: 'ERR_ORDER_DENIED' });
});
