/**
 * Classes of sites by the time since their last contact. Metrics, the command line and the status
 * page use these classes.
 */

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/**
 * Classes of sites, each with the maximum time since the last contact of its sites, in
 * milliseconds. A site that is connected to another member of the cluster belongs to the first
 * class.
 */
const bounds = {
  recent: 10 * minute,
  hour,
  day,
  week: 7 * day,
  older: Infinity,
} as const;

/** Class of a site by the time since its last contact. `never`: the site has never connected. */
export type ContactAge = keyof typeof bounds | 'never';

/** Names of the classes of sites, the most recent contact first. */
export const contactAges: readonly ContactAge[] = [
  'recent',
  'hour',
  'day',
  'week',
  'older',
  'never',
];

/**
 * Returns the class of a site by the time since its last contact.
 * @param lastContactAt - time of the last contact, in milliseconds since 1970, or `undefined` if
 * the site has never connected
 */
export function contactAgeOf(lastContactAt: number | undefined, now: number): ContactAge {
  if (lastContactAt === undefined) return 'never';
  const passed = now - lastContactAt;
  return contactAges.find((age) => age !== 'never' && passed <= bounds[age]) ?? 'older';
}

/** Counts the items of each kind. Kinds without items have the count 0. */
export function countKinds<K extends string>(
  kinds: readonly K[],
  items: Iterable<K>,
): Readonly<Record<string, number>> {
  const counts = new Map<string, number>(kinds.map((kind) => [kind, 0]));
  for (const kind of items) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return Object.fromEntries(counts);
}
