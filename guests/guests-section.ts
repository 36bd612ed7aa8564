/** Section `saltbridge: bridge: guests:`, which several extensions share. */

import Type from 'typebox';
import { isPlainMap, parseSection } from '#heat-bridge';

/** Keys of the section `guests:`, by the extension that reads them. */
const keysOf = {
  'data-spaces': ['data', 'peers'],
  'metadata-agent': ['agents', 'identity', 'vendordata', 'peers'],
} as const;

/** The section `saltbridge: bridge: guests:` of the configuration, with unparsed values. */
export type GuestsSection = Readonly<Record<(typeof keysOf)[keyof typeof keysOf][number], unknown>>;

/**
 * Parses the section `saltbridge: bridge: guests:`, and rejects keys that no enabled extension
 * reads.
 * @param names - names of the enabled extensions
 * @throws BridgeOptionsError
 */
export function parseGuestsSection(
  given: unknown,
  names: ReadonlySet<string>,
): Partial<GuestsSection> {
  const keys = Object.entries(keysOf).flatMap(([name, own]) => (names.has(name) ? own : []));
  const members = keys.map((key) => [key, Type.Optional(Type.Unknown())]);
  const schema = Type.Object(Object.fromEntries(members), { additionalProperties: false });
  return parseSection('bridge:guests', schema, given ?? {});
}

/**
 * Returns the entries of the section `bridge: guests:`, without validating them. Returns an empty
 * map if the section is not a map.
 */
export function partsOfGuests(given: unknown): Partial<GuestsSection> {
  return isPlainMap(given) ? given : {};
}

/** Whether the section configures metadata agents or the enrolment of instances. */
export function hasAgentKeys(given: unknown): boolean {
  const { agents, identity, vendordata } = partsOfGuests(given);
  return [agents, identity, vendordata].some((it) => it !== undefined);
}
