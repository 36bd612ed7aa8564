/** Orders that wait at the centre while the rights of their user change. */

import test from 'ava';
import { allow, decide, type Policy, type Question, type Subject } from '#acl';
import { CentreOrders } from '#edge/orders/centre-orders.ts';
import { orderMethods } from '#edge/orders/order-methods.ts';
import type { CentreContext } from '#edge/parts.ts';
import { createSilentLogger, type MasterApi } from '#master';
import { namedMethods } from '#master/rpc/methods.ts';
import { policyOf } from '../helpers/policies.ts';
import { memoryRows } from './bundles/tuf-stage.ts';

/** Parts of a centre that can change while an order waits. */
interface Rights {
  policy: Policy;
  subject: Subject;
  readonly ended: AbortController;
}

function policyFor(site: string): Policy {
  const kwargs = { site, kind: 'job', what: 'test.*' };
  const resource = { fun: 'site.order', arguments: [{ kwargs }] };
  return policyOf([allow('orders', { subject: { group: 'staff' }, action: 'command', resource })]);
}

/** Issues an order of a user. `change` runs while the order waits for its id. */
async function issueWhile(change: (rights: Rights) => void): Promise<{
  readonly error: unknown;
  /** Names of the users and groups in stored orders. */
  readonly stored: readonly string[];
  readonly decisions: number;
  /** Number of releases of the token before the order was stored, and until the call ended. */
  readonly stops: readonly number[];
}> {
  const rights: Rights = {
    policy: policyFor('north'),
    subject: { kind: 'user', name: 'fred', groups: ['staff'], eauth: 'file' },
    ended: new AbortController(),
  };
  let [stops, stopsBefore, decisions] = [0, 0, 0];
  const shared = { ...memoryRows({ now: 0 }), follow: async () => {}, cluster: undefined };
  const host = {
    now: () => 1,
    shared,
    logger: createSilentLogger(),
    policy: () => rights.policy,
    decide: (question: Question) => {
      decisions += 1;
      return decide(question, rights.policy);
    },
    freshJid: async () => {
      change(rights);
      stopsBefore = stops;
      return '1'.repeat(20);
    },
  };
  const texts: string[] = [];
  // Only these members are used.
  const orders = new CentreOrders({
    host,
    sites: { joined: ['north', 'south'] },
    links: { callerOf: () => undefined },
    sign: (bytes: Uint8Array) => {
      texts.push(Buffer.from(bytes).toString());
      return Buffer.alloc(64);
    },
  } as unknown as CentreContext);
  const holder = {
    get subject() {
      return rights.subject;
    },
    get policy() {
      return rights.policy;
    },
    ended: rights.ended.signal,
    stop: () => {
      stops += 1;
    },
  };
  const method = namedMethods(orderMethods(orders, { holdToken: async () => holder })).get('order');
  const work = { kind: 'job', tgt: '*', fun: 'test.ping' };
  const parameters = { sites: ['north'], work, token: 'x' };
  const unused = {} as unknown as MasterApi; // the method uses only `orders`
  let error: unknown;
  try {
    await method?.invoke(unused, parameters, new AbortController().signal, undefined);
  } catch (thrown) {
    error = thrown;
  }
  const rows = await Array.fromAsync(shared.list(['order-queue']));
  const stored = rows.flatMap(() => texts.flatMap((text) => text.match(/"by":\{[^}]*\}/g) ?? []));
  return { error, stored, decisions, stops: [stopsBefore, stops] };
}

test('an order that waits is judged again if its rights change', async (t) => {
  const unchanged = await issueWhile(() => {});
  t.deepEqual(unchanged.stored, ['"by":{"name":"fred","groups":["staff"]}']);
  t.is(unchanged.decisions, 1, 'a second decision would count towards the rate limit of the rule');
  const left = await issueWhile((rights) => {
    rights.subject = { kind: 'user', name: 'fred', groups: [], eauth: 'file' };
  });
  t.like(left.error, { code: 'ERR_DENIED' });
  const reloaded = await issueWhile((rights) => {
    rights.policy = policyFor('south');
  });
  t.like(reloaded.error, { code: 'ERR_DENIED' });
  const ended = await issueWhile((rights) => rights.ended.abort());
  t.like(ended.error, { code: 'ERR_EAUTH_TOKEN' });
  t.deepEqual([left.stored, reloaded.stored, ended.stored], [[], [], []]);
  const joined = await issueWhile((rights) => {
    rights.subject = { kind: 'user', name: 'fred', groups: ['staff', 'ops'], eauth: 'file' };
  });
  t.deepEqual(joined.stored, ['"by":{"name":"fred","groups":["staff","ops"]}']);
});

test('the token of an order is watched until the order is stored', async (t) => {
  t.deepEqual((await issueWhile(() => {})).stops, [0, 1]);
});
