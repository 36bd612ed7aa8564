/**
 * Schema and parser of `orders.yml`, the file with the approved plans of a release. The centre
 * checks the file when it packs a release. A site checks it before it uses the bundle.
 */

import { Cron } from 'croner';
import Type, { type Static } from 'typebox';
import { parse } from 'yaml';
import { compileSchema, errorMessage, type JsonValue } from '#runtime';
import { EdgeError } from '../errors.ts';

const strict = { additionalProperties: false };
const Name = Type.String({ minLength: 1, maxLength: 255 });
const Target = Type.Union([Type.String({ minLength: 1 }), Type.Array(Name)]);

const Trigger = Type.Union([
  /**
   * The plan runs when the site has been without a connection to its centre for this number of
   * seconds.
   */
  Type.Object({ 'link-lost': Type.Integer({ minimum: 1, maximum: 2_000_000 }) }, strict),
  /** The plan runs at each event whose tag matches this glob. */
  Type.Object({ signal: Name }, strict),
  /** The plan runs at this interval, in seconds. */
  Type.Object({ every: Type.Integer({ minimum: 10, maximum: 2_000_000 }) }, strict),
  /** The plan runs at the times of this cron expression, in local time. */
  Type.Object({ cron: Name }, strict),
]);

const Approved = Type.Object(
  {
    on: Trigger,
    /** Name of the plan in the catalog. */
    plan: Name,
    /** Target of each group of the plan, by the name of the group. */
    groups: Type.Record(Type.String(), Target),
    params: Type.Optional(Type.Unsafe<Readonly<Record<string, JsonValue>>>(Type.Object({}))),
  },
  strict,
);
const fileCheck = compileSchema(
  Type.Object(
    { plans: Type.Record(Type.String({ pattern: '^[a-z0-9-]{1,63}$' }), Approved) },
    strict,
  ),
);

/** Approved plan: its trigger, and the plan that it runs. */
export type ApprovedPlan = Readonly<Static<typeof Approved>>;

/** Maximum size of `orders.yml`, in bytes. */
const maxFileBytes = 1_048_576;

/**
 * Parses `orders.yml`.
 * @returns the approved plans by name
 * @throws EdgeError ERR_ORDER_INVALID if the file is malformed or too large
 */
export function parseApprovedPlans(text: string): ReadonlyMap<string, ApprovedPlan> {
  if (text.length > maxFileBytes) throw invalid(`it exceeds ${maxFileBytes} bytes`);
  let plans: Readonly<Record<string, ApprovedPlan>>;
  try {
    plans = fileCheck.Parse(parse(text, { maxAliasCount: 0 }) ?? { plans: {} }).plans;
  } catch (cause) {
    const reason = errorMessage(cause);
    throw invalid(reason, { cause });
  }
  for (const [name, { on }] of Object.entries(plans)) {
    if ('cron' in on) requireCron(name, on.cron);
  }
  return new Map(Object.entries(plans));
}

function requireCron(name: string, pattern: string): void {
  try {
    new Cron(pattern, { paused: true }).stop();
  } catch (cause) {
    throw invalid(`plan ${name}: cron ${pattern} is invalid`, { cause });
  }
}

function invalid(reason: string, options?: ErrorOptions): EdgeError {
  return new EdgeError('ERR_ORDER_INVALID', `orders.yml: ${reason}`, options);
}
