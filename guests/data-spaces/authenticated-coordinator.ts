/**
 * Authenticates values in an external server. Other programs may be able to write to this server.
 * Each value has a MAC (message authentication code) over its content and its key. Values without a
 * valid MAC are rejected.
 */

import { createHmac, timingSafeEqual } from 'node:crypto';
import { BridgeError } from '#heat-bridge';
import { RepeatedWarnings } from '#runtime';
import type { CoordinatedValue, Coordinator } from './coordinator.ts';

const macLength = 32;

/**
 * Wraps a coordinator so that its values are authenticated.
 * @param key - 32 bytes that only this bridge knows
 */
export function authenticateValues(
  coordinator: Coordinator,
  key: Uint8Array,
  log: { warn(about: object, message: string): void },
): Coordinator {
  const warnings = new RepeatedWarnings(log);
  const macOf = (space: string, name: string, { value, version }: CoordinatedValue): Buffer =>
    createHmac('sha256', key)
      // Use JSON, so that two different keys never produce the same text.
      .update(JSON.stringify(['saltbridge-data', space, name, version]))
      .update('\n')
      .update(value)
      .digest();
  return {
    get: async (space, name) => {
      const found = await coordinator.get(space, name);
      if (found === undefined) return undefined;
      const mac = found.value.subarray(0, macLength);
      const own = { version: found.version, value: found.value.subarray(macLength) };
      if (mac.length !== macLength || !timingSafeEqual(mac, macOf(space, name, own))) {
        warnings.warn(
          'altered',
          { space, key: name },
          'rejected a value of a data space, because another program wrote or changed it in etcd or ZooKeeper',
        );
        const text = `${name}: another program wrote or changed the stored value; see the log of the master`;
        throw new BridgeError('ERR_DATA_ALTERED', text);
      }
      return own;
    },
    put: (space, name, { value, version }) => {
      const mac = macOf(space, name, { value, version });
      return coordinator.put(space, name, { version, value: Buffer.concat([mac, value]) });
    },
    watch: (space, name, listener) => coordinator.watch(space, name, listener),
    sizes: async (space) => {
      const sizes = await coordinator.sizes(space);
      return new Map(Array.from(sizes, ([name, size]) => [name, Math.max(0, size - macLength)]));
    },
    remove: (space) => coordinator.remove(space),
    isConnected: () => coordinator.isConnected?.() ?? true,
    close: () => coordinator.close(),
  };
}
