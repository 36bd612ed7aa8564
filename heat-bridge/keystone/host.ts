/** The bridge's host, where Keystone's tokens are taken beside the master's own. */
import type { ExtensionHost } from '../../master/index.ts';
import { createAsk } from '../outgoing/exchange.ts';
import { createLookup } from '../outgoing/lookup.ts';
import { KeystoneClient } from './client.ts';
import { keystoneOptions } from './options.ts';
import { isKeystoneForm, KeystoneTokens } from './tokens.ts';

/**
 * The same host; who holds a token is known of both kinds, told apart by their form.
 * @param section - `saltbridge: bridge: keystone:`; `undefined`: there is no Keystone
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function withKeystone(host: ExtensionHost, section: unknown): ExtensionHost {
  if (section === undefined) return host;
  const { endpoints, timeoutMs, ...who } = keystoneOptions(section);
  const { closing, now } = host;
  const log = host.logger.child({ part: 'keystone' });
  const monotonic = (): number => performance.now();
  const ask = createAsk({ endpoints, timeoutMs, resolve: createLookup() });
  const client = new KeystoneClient({ ...who, ask, monotonic, closing, log });
  const tokens = new KeystoneTokens({ validate: (it) => client.validate(it), now, monotonic });
  closing.addEventListener('abort', () => tokens.close(), { once: true });
  return {
    ...host,
    holdToken: async (token) => {
      if (!isKeystoneForm(token)) return host.holdToken(token);
      const held = await tokens.hold(token);
      return {
        ...held,
        get policy() {
          return host.policy();
        },
      };
    },
  };
}
