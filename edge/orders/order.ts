/**
 * Orders of the centre. An order is one job, command, plan or enrolment for one site. It is valid
 * for a limited time. The text of an order is not secret, but only the centre can sign it.
 */

import Type, { type Static } from 'typebox';
import type { UserSubject } from '#acl';
import type { WireValue } from '#minion-protocol';
import { compileSchema, type JsonValue, parseJson, writeJson } from '#runtime';
import { EdgeError } from '../errors.ts';
import { isSignedBy, signedForm } from '../identity/ed25519.ts';

const purpose = 'saltbridge order 1';
const prefix = 'saltbridge-order-1';

/**
 * Maximum length of the text of an order, in characters. An order of this length fits into one
 * message.
 */
export const maxOrderLength = 60_000;

/** Maximum number of ids in a target of an order. */
export const maxTargets = 1000;

const strict = { additionalProperties: false };
const Name = Type.String({ minLength: 1, maxLength: 255 });
const Target = Type.Union([
  Type.String({ minLength: 1, maxLength: 4096 }),
  Type.Array(Name, { maxItems: maxTargets }),
]);
const Values = Type.Unsafe<Readonly<Record<string, WireValue>>>(Type.Object({}));
const Parameters = Type.Unsafe<Readonly<Record<string, JsonValue>>>(Type.Object({}));
const target = { tgt: Target, tgtType: Type.Optional(Name) };

/** Schema of the work of an order: a job, a command, a plan or an enrolment. */
export const OrderWorkSchema = Type.Union([
  Type.Object(
    {
      kind: Type.Literal('job'),
      ...target,
      fun: Name,
      arg: Type.Optional(Type.Unsafe<readonly WireValue[]>(Type.Array(Type.Unknown()))),
      kwarg: Type.Optional(Values),
    },
    strict,
  ),
  Type.Object(
    {
      kind: Type.Literal('command'),
      name: Name,
      ...target,
      params: Type.Optional(Parameters),
    },
    strict,
  ),
  Type.Object(
    {
      kind: Type.Literal('plan'),
      name: Name,
      /** Target of each group of the plan, by the name of the group. */
      groups: Type.Record(Type.String(), Target),
      params: Type.Optional(Parameters),
    },
    strict,
  ),
  Type.Object(
    {
      kind: Type.Literal('enrol'),
      minion: Name,
      project: Name,
      instance: Type.Optional(Name),
      lifetimeSeconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
    },
    strict,
  ),
]);

/** Work of an order: a job, a command, a plan or an enrolment. */
export type OrderWork = Readonly<Static<typeof OrderWorkSchema>>;

const Order = Type.Object(
  {
    /** Id of the order: twenty digits, like a job id. */
    id: Type.String({ pattern: '^[0-9]{20}$' }),
    site: Type.String({ minLength: 1, maxLength: 63 }),
    /** User at the centre who issued the order. */
    by: Type.Object({ name: Name, groups: Type.Array(Name, { maxItems: 100 }) }, strict),
    work: OrderWorkSchema,
    /**
     * Time of issue, in milliseconds since 1970 by the clock of the centre. `validUntil` is the end
     * of the validity.
     */
    issuedAt: Type.Integer({ minimum: 0 }),
    validUntil: Type.Integer({ minimum: 0 }),
  },
  strict,
);
const orderCheck = compileSchema(Order);

export type Order = Readonly<Static<typeof Order>>;

/**
 * Returns the subject of an order in the policy of a site. Rules select this subject with `eauth:
 * centre`.
 */
export function subjectOfOrder({ by }: Pick<Order, 'by'>): UserSubject {
  return { kind: 'user', name: by.name, groups: by.groups, eauth: 'centre' };
}

/**
 * Writes and signs an order.
 * @param sign - signs bytes with the online key of the centre
 * @throws EdgeError ERR_ORDER_INVALID if the order is too long
 */
export function writeOrder(order: Order, sign: (bytes: Uint8Array) => Uint8Array): string {
  const body = Buffer.from(writeJson(order));
  const signature = Buffer.from(sign(signedForm(purpose, [body])));
  const text = `${prefix}.${body.toString('base64url')}.${signature.toString('base64url')}`;
  if (text.length > maxOrderLength) {
    const problem = `the order has ${text.length} characters, more than ${maxOrderLength}`;
    throw new EdgeError('ERR_ORDER_INVALID', `${problem}; use a command or plan of the catalog`);
  }
  return text;
}

/**
 * Reads an order, and verifies its signature and its site. Does not check whether the order has
 * expired.
 * @param centreKey - public online key of the centre
 * @param site - name of this site
 * @throws EdgeError ERR_ORDER_INVALID
 */
export function readOrder(text: string, centreKey: Uint8Array, site: string): Order {
  const [head, body = '', signature = '', ...rest] = text.split('.');
  const bytes = Buffer.from(body, 'base64url');
  const isWhole = head === prefix && rest.length === 0 && text.length <= maxOrderLength;
  if (!isWhole || !isSignedBy(centreKey, purpose, [bytes], Buffer.from(signature, 'base64url'))) {
    throw new EdgeError('ERR_ORDER_INVALID', 'the order is not signed by the centre of this site');
  }
  const order = parseOrder(bytes);
  if (order.site !== site) {
    throw new EdgeError('ERR_ORDER_INVALID', `the order is for the site ${order.site}`);
  }
  return order;
}

/**
 * Maximum time by which the time of issue of an order may be ahead of the estimated time of the
 * centre, in milliseconds: a day.
 */
const aheadMs = 86_400_000;

/** Times of a site that decide whether it accepts an order. In milliseconds since 1970. */
export interface OrderTimes {
  /** Time of the centre, as the site estimates it. */
  readonly now: number;
  /**
   * Time of the centre at which the site last replaced a wrong time of the centre by an earlier
   * time. 0 if it never has.
   */
  readonly correctedAt: number;
}

/**
 * Returns the reason why a site refuses an order because of its times, or `undefined`. A site
 * deletes an order a week after its validity. While the time of the centre was ahead, the site may
 * have deleted orders too early. To run no order twice, the site refuses all orders from before the
 * correction, and orders that were issued while the clock of the centre was ahead.
 */
export function timeProblemOf(
  { issuedAt, validUntil }: Pick<Order, 'issuedAt' | 'validUntil'>,
  { now, correctedAt }: OrderTimes,
): string | undefined {
  if (now >= validUntil) {
    const times = `it was valid until ${textOf(validUntil)}, and the time of the centre at this site is ${textOf(now)}`;
    const action =
      'if this time is wrong, correct the clocks of the centre and of the site, and restart the master of the site';
    return `the order has expired: ${times}; ${action}`;
  }
  if (issuedAt < correctedAt) {
    return `the order was issued before ${textOf(correctedAt)}, when the site corrected the time of its centre; issue it again`;
  }
  if (issuedAt > now + aheadMs) {
    return `the clock of the centre was ahead when the order was issued, at ${textOf(issuedAt)}; issue it again`;
  }
  return undefined;
}

function textOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}

/**
 * Reads an order that the site has already verified and stored. Does not verify the order again,
 * because the site may have another centre now.
 * @throws EdgeError ERR_ORDER_INVALID
 */
export function readStoredOrder(text: string): Order {
  const [, body = ''] = text.split('.');
  return parseOrder(Buffer.from(body, 'base64url'));
}

function parseOrder(bytes: Buffer): Order {
  try {
    return orderCheck.Parse(parseJson(bytes.toString('utf8')));
  } catch (cause) {
    throw new EdgeError('ERR_ORDER_INVALID', 'the order is malformed', { cause });
  }
}
