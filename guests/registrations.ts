/** Lookup, lists and the number of registered stacks and data spaces. */

import { BridgeError, type BridgeErrorCode } from '#heat-bridge';
import { Budget, unlimitedSteps, WorkBudget } from '#runtime';
import { guestLimits } from './limits.ts';

/**
 * Cost of converting a registration, for each of its parts (for example each server), in steps of a
 * {@link WorkBudget}.
 */
const stepsPerPart = 200;

/**
 * Converts registrations with `infoOf`, and returns the results in the same order. The work is
 * divided into slices of about one millisecond, and other work can run between them.
 * @param partsOf - returns the number of parts of a registration, for example its servers. A
 * registration with more parts takes longer to convert
 * @param owner - owner of all registrations. If several owners wait, their slices alternate.
 * Several calls for one owner together get as many slices as one call
 */
export async function listInSlices<Item, Info>(
  items: readonly Item[],
  partsOf: (item: Item) => number,
  infoOf: (item: Item) => Info,
  owner?: string,
): Promise<readonly Info[]> {
  const turn = owner === undefined ? undefined : `registrations of ${owner}`;
  const work = new WorkBudget(unlimitedSteps, turn);
  const infos: Info[] = [];
  for (const item of items) {
    infos.push(infoOf(item));
    await work.giveWayAfter(stepsPerPart * (1 + partsOf(item)));
  }
  return infos;
}

/** Fields of a stored registration that the lookup reads. */
interface Registered {
  readonly name: string;
  readonly owner?: string | undefined;
}

/**
 * Returns the stack or data space with this name and owner. Without `owner`, prefers one
 * that has no owner. If there is none, returns the only one with this name.
 * @throws BridgeError with the given code if none is found, or if several owners have one
 */
export function findRegistration<R extends Registered>(
  all: readonly R[],
  { name, owner }: Registered,
  { code, kind }: { readonly code: BridgeErrorCode; readonly kind: string },
): R {
  const own = registrationOf(all, { name, owner });
  if (own !== undefined) return own;
  const others = owner === undefined ? all.filter((it) => it.name === name) : [];
  const [only, another] = others;
  if (only !== undefined && another === undefined) return only;
  const named = `${kind} with the name ${JSON.stringify(name.slice(0, 64))}`;
  if (another !== undefined) {
    throw new BridgeError(code, `several owners have a ${named}; specify the owner`);
  }
  throw new BridgeError(code, owner === undefined ? `no ${named}` : `this owner has no ${named}`);
}

/**
 * Returns the registration with exactly this name and owner. With `undefined` as the owner, returns
 * a registration without an owner.
 */
export function registrationOf<R extends Registered>(
  all: readonly R[],
  { name, owner }: Registered,
): R | undefined {
  return all.find((it) => it.name === name && it.owner === owner);
}

/**
 * Checks that an owner may register one more stack or data space. `guests.registrations` limits
 * their number per owner and in total.
 * @throws BridgeError with the given code
 */
export function requireRegistrationRoom(
  all: readonly Registered[],
  owner: string | undefined,
  { code, kind }: { readonly code: BridgeErrorCode; readonly kind: string },
): void {
  const { registrations: limit } = guestLimits;
  const budget = new Budget(limit);
  for (const it of all) budget.take(it.owner ?? '');
  if (budget.tryTake(owner ?? '')) return;
  const text = `too many ${kind}s: at most ${limit.perOwner} per owner and ${limit.total} in total`;
  throw new BridgeError(code, text);
}
