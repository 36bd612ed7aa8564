/** RPC methods of the centre about orders: `site.order`, `site.orders`, `site.result`, `site.tail`. */

import Type from 'typebox';
import type { UserSubject } from '#acl';
import {
  AuthorizationError,
  type ExtensionHost,
  extensionMethod,
  extensionStream,
  type RpcTable,
} from '#master';
import type { CentreOrders, OrderReport } from './centre-orders.ts';
import { OrderWorkSchema } from './order.ts';

const strict = { additionalProperties: false };
const Name = Type.String({ minLength: 1, maxLength: 255 });
const Token = Type.Optional(Type.String({ minLength: 1, maxLength: 65_536 }));
const Selected = Type.Object({ id: Name }, strict);

/** Default validity of an order, in seconds: a day. */
const usualSeconds = 86_400;
/** Maximum validity of an order, in seconds: 90 days. */
const maxSeconds = 7_776_000;

export function orderMethods(orders: CentreOrders, host: ExtensionHost): RpcTable {
  return {
    order: extensionMethod({
      access: 'user',
      parameters: Type.Object(
        {
          sites: Type.Array(Name, { minItems: 1, maxItems: 1000 }),
          work: OrderWorkSchema,
          facts: Type.Optional(Type.String({ minLength: 1, maxLength: 4096 })),
          validSeconds: Type.Optional(Type.Integer({ minimum: 1, maximum: maxSeconds })),
          token: Token,
        },
        strict,
      ),
      call: async (_api, { token, validSeconds = usualSeconds, ...request }) =>
        orders.issue({ ...request, validSeconds, by: await issuerOf(host, token) }),
      audit: {
        action: 'site.order',
        done: ({ sites, work }) => ({ what: work.kind, on: sites }),
        failed: ({ sites, work }) => ({ what: work.kind, on: sites }),
      },
    }),
    orders: extensionMethod({
      parameters: Type.Object(
        { limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })) },
        strict,
      ),
      call: (_api, { limit = 50 }) => orders.list(limit),
    }),
    result: extensionMethod({
      parameters: Selected,
      call: (_api, { id }) => orders.show(id),
    }),
    tail: extensionStream({
      parameters: Selected,
      call: (_api, { id }, signal) => follow(orders, id, signal),
    }),
  };
}

/**
 * Returns the user that a token belongs to, or `undefined` for the operator if there is no token.
 * @throws AuthorizationError ERR_DENIED if the token does not belong to a user
 */
async function issuerOf(
  host: ExtensionHost,
  token: string | undefined,
): Promise<UserSubject | undefined> {
  if (token === undefined) return undefined;
  const holder = await host.holdToken(token);
  holder.stop();
  if (holder.subject.kind === 'user') return holder.subject;
  throw new AuthorizationError(
    'the token does not belong to a user; only users can issue orders to sites',
  );
}

/** Yields the order now and after each change, until its state at every site is final. */
async function* follow(
  orders: CentreOrders,
  id: string,
  signal: AbortSignal,
): AsyncGenerator<OrderReport, void, void> {
  const ended = new AbortController();
  const stop = (): void => ended.abort();
  signal.addEventListener('abort', stop, { once: true });
  let changed = Promise.withResolvers<void>();
  orders.onChange((other) => {
    if (other === id) changed.resolve();
  }, ended.signal);
  ended.signal.addEventListener('abort', () => changed.resolve(), { once: true });
  try {
    while (!ended.signal.aborted) {
      changed = Promise.withResolvers();
      const report = await orders.show(id);
      yield report;
      if (report.counts.waiting + report.counts.running === 0) return;
      await changed.promise;
    }
  } finally {
    signal.removeEventListener('abort', stop);
    ended.abort();
  }
}
