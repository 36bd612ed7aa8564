/** Stored rows of orders. */

import Type, { type Static } from 'typebox';
import { defineRow, jsonField, type RowOf } from '#store';
import { FactsBasisSchema } from '../facts/facts-target.ts';
import { OrderWorkSchema } from './order.ts';

const Time = Type.Integer({ minimum: 0 });
const Count = Type.Integer({ minimum: 0 });

/**
 * States of an order at a site. `waiting`: the site has not received the order yet. `refused`: the
 * site has rejected the order, or its policy does not permit it. `expired`: the order did not start
 * before its validity ended, or before the site had been without its centre for too long.
 */
export const orderStates = ['waiting', 'running', 'done', 'failed', 'refused', 'expired'] as const;

export type OrderState = (typeof orderStates)[number];

/** Maximum number of entries in each list of a result. */
export const maxListed = 100;

/** Maximum length of a name in a result. A minion id has at most 128 characters. */
export const maxNameLength = 256;

const Names = Type.Unsafe<readonly string[]>(
  Type.Array(Type.String({ maxLength: maxNameLength }), { maxItems: maxListed }),
);

/**
 * Returns the schema of the result of an order at a site.
 * @param options - options of the result and of each of its failures
 */
function resultSchema(options: { readonly additionalProperties: boolean }) {
  return Type.Object(
    {
      state: Type.Enum([...orderStates]),
      /**
       * Reason why the order is in the state `refused` or `failed`, or a notice that rights have
       * limited its target.
       */
      reason: Type.Optional(Type.String({ maxLength: 4096 })),
      /**
       * Number of minions that succeeded. The property `failed` counts the minions that failed, and
       * `silent` the minions that did not return.
       */
      succeeded: Count,
      failed: Count,
      silent: Count,
      /**
       * Number of minions that the target names but that received no job. The site does not know
       * them, or the caller lacks a right.
       */
      unaddressed: Count,
      unaddressedNames: Names,
      /** Minions that did not succeed, with the reason. */
      failures: Type.Array(
        Type.Object(
          {
            minion: Type.String({ maxLength: maxNameLength }),
            reason: Type.String({ maxLength: 200 }),
          },
          options,
        ),
        { maxItems: maxListed },
      ),
      jids: Names,
    },
    options,
  );
}

/** Schema of the result of an order, as a site reports it. */
export const OrderResultSchema = resultSchema({ additionalProperties: false });

/** Schema of a stored result. Earlier versions of the centre stored unknown fields too. */
const StoredResult = resultSchema({ additionalProperties: true });

/** Result of an order at a site. */
export type OrderResult = Readonly<Static<typeof OrderResultSchema>>;

/**
 * Result of an order that no minion has answered yet: all numbers are 0, and all lists are empty.
 */
export const noResults = {
  succeeded: 0,
  failed: 0,
  silent: 0,
  unaddressed: 0,
  unaddressedNames: [],
  failures: [],
  jids: [],
} satisfies Omit<OrderResult, 'state'>;

/** Encodes and decodes an order at the centre. The key of the row is `['orders', id]`. */
export const orderRow = defineRow({
  name: 'order',
  schema: Type.Object({
    /** Name of the user who issued the order. */
    by: Type.String(),
    work: OrderWorkSchema,
    issuedAt: Time,
    validUntil: Time,
    /**
     * Summary of the facts by which the minions were selected. Present only for orders with the
     * option `--facts`.
     */
    basis: Type.Optional(FactsBasisSchema),
  }),
  packed: { work: jsonField, basis: jsonField },
});
export type OrderRow = RowOf<typeof orderRow>;

/**
 * Encodes and decodes the state of an order at a site, which the centre stores. The key of the row
 * is `['order-sites', id, site]`.
 */
export const orderSiteRow = defineRow({
  name: 'result of an order',
  schema: Type.Object({
    result: StoredResult,
    /** Time of the last change, in milliseconds since 1970. */
    at: Time,
    /** Ticket of an enrolment, encrypted with the key in `seal.key`, in base64. */
    ticket: Type.Optional(Type.String()),
  }),
  packed: { result: jsonField },
});
export type OrderSiteRow = RowOf<typeof orderSiteRow>;

/**
 * Encodes and decodes an order that a site has not received yet. The key of the row at the centre
 * is `['order-queue', site, id]`.
 */
export const queuedOrderRow = defineRow({
  name: 'waiting order',
  schema: Type.Object({
    text: Type.String(),
    validUntil: Time,
    /** Name of the user who issued the order. */
    by: Type.String(),
  }),
  // Version 2 added `by`.
  upgrades: [(old) => ({ ...old, by: 'operator' })],
});

/**
 * Encodes and decodes an order that a site has received. The key of the row at the site is
 * `['order', id]`.
 */
export const receivedOrderRow = defineRow({
  name: 'order of the centre',
  schema: Type.Object({
    text: Type.String(),
    /** Whether the site has appended the result of the order to its log. */
    isReported: Type.Boolean(),
    /** Whether the order has started to run. It then runs to its end, also after a restart. */
    isStarted: Type.Optional(Type.Boolean()),
    /** Job id. Present only for orders whose `kind` is `job`. */
    jid: Type.Optional(Type.String()),
    validUntil: Time,
  }),
});
export type ReceivedOrderRow = RowOf<typeof receivedOrderRow>;
