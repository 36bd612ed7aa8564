/** RPC methods of the centre about orders: `site.order`, `site.orders`, `site.result`, `site.tail`. */

import Type from 'typebox';
import {
  AuthorizationError,
  type ExtensionHost,
  extensionMethod,
  extensionStream,
  type RpcTable,
  requireValid,
  withToken,
} from '#master';
import type { CentreOrders, OrderReport, OrderRequest } from './centre-orders.ts';
import { OrderWorkSchema } from './order.ts';

const strict = { additionalProperties: false };
const Name = Type.String({ minLength: 1, maxLength: 255 });
const Token = Type.Optional(Type.String({ minLength: 1, maxLength: 65_536 }));
const Selected = Type.Object({ id: Name }, strict);

/** Default validity of an order, in seconds: a day. */
const usualSeconds = 86_400;
/** Maximum validity of an order, in seconds: 90 days. */
const maxSeconds = 7_776_000;

export function orderMethods(
  orders: Pick<CentreOrders, 'issue' | 'list' | 'onChange' | 'show'>,
  host: Pick<ExtensionHost, 'holdToken'>,
): RpcTable {
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
        withIssuer(host, token, (by) => orders.issue({ ...request, validSeconds, by })),
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
 * Calls `work` with a function that returns the user that a token belongs to, or with `undefined`
 * for the operator if there is no token. The groups of the user are kept current until `work` ends.
 * The function throws if the token has ended, or does not belong to a user.
 * @throws AuthenticationError, and the errors of `work`
 */
async function withIssuer<T>(
  host: Pick<ExtensionHost, 'holdToken'>,
  token: string | undefined,
  work: (by: OrderRequest['by']) => Promise<T>,
): Promise<T> {
  if (token === undefined) return work(undefined);
  return withToken(host, { token }, (holder) =>
    work(() => {
      requireValid(holder);
      if (holder.subject.kind === 'user') return holder.subject;
      throw new AuthorizationError(
        'the token does not belong to a user; only users can issue orders to sites',
      );
    }),
  );
}

/** Yields the order now and after each change, until its state at every site is final. */
async function* follow(
  orders: Pick<CentreOrders, 'onChange' | 'show'>,
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
