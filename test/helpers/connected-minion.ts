/**
 * Minions in addition to the minion of the recorded vectors. They sign in, request their pillar and
 * subscribe.
 */
import type { ExecutionContext } from 'ava';
import { createMinion, type Minion } from '#minion-protocol';
import type { StoredKey, VectorMaster } from './vector-master.ts';
import { pem } from './vectors.ts';

/**
 * Returns the accepted key of a minion of {@link connectMinion}, which the master must have at its
 * start.
 */
export function otherKey(id: string): StoredKey {
  return { directory: 'minions', id, publicPem: pem('other_minion').publicPem };
}

/** Connects a minion. It is stopped at the end of the test. */
export async function connectMinion(
  t: ExecutionContext,
  { dial }: VectorMaster,
  id: string,
  address = `192.0.2.${id.at(-1)}`,
): Promise<Minion> {
  const keys = { ...pem('other_minion'), masterPem: undefined, trustMaster: async () => {} };
  const minion = createMinion({ id, transport: dial(id, address), keys });
  t.teardown(() => minion.stop());
  await minion.start();
  return minion;
}
