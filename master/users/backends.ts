/** The back ends that may stand under `external_auth`: a closed table. */

import { createHash } from 'node:crypto';
import { type BackendSettings, type ReloadableConfig, readBackend } from '#config';
import type { LoginBackend } from './backend.ts';
import { createFileBackend } from './file-backend.ts';
import { createJwtBackend } from './jwt.ts';
import { createKeystoneBackend } from './keystone.ts';
import { createLdapBackend } from './ldap.ts';
import { createPamBackend } from './pam.ts';
import { isSameText } from './password-hashes.ts';

/** Lets in everybody as whoever they say: for tests [salt/auth/auto.py]. */
function createAutoBackend(): LoginBackend {
  return {
    name: 'auto',
    authenticate: async ({ username }) => ({ user: username, groups: [] }),
  };
}

/** One password for everybody, who are whoever they say [salt/auth/sharedsecret.py]. */
function createSharedSecretBackend(sharedsecret: string): LoginBackend {
  return {
    name: 'sharedsecret',
    authenticate: async ({ username, password }) => {
      const isRight = sharedsecret !== '' && isSameText(password, sharedsecret);
      return isRight ? { user: username, groups: [] } : undefined;
    },
  };
}

/** Back ends by the name under `external_auth`. What is not there lets nobody in. */
export type Backends = ReadonlyMap<string, LoginBackend>;

/**
 * The back ends of a configuration. Those with a mistake are left out; the start told it.
 * @param before those that were made from the same options are kept, with what they remember
 */
export function createBackends(
  config: ReloadableConfig,
  now: () => number,
  before: Backends = new Map(),
): Backends {
  const backends = new Map<string, LoginBackend>();
  for (const name of Object.keys(config.externalAuth)) {
    const read = readBackend(name, config);
    if (!('settings' in read)) continue;
    const madeFrom = digestOf([read.settings, config.eauth]);
    const known = before.get(name);
    const backend =
      known?.madeFrom === madeFrom ? known : createBackend(read.settings, config, now);
    backends.set(name, { ...backend, madeFrom });
  }
  return backends;
}

/** Tells whether options are the same, and nothing of the secrets among them. */
function digestOf(options: unknown): string {
  return createHash('sha256').update(JSON.stringify(options)).digest('hex');
}

function createBackend(
  settings: BackendSettings,
  { eauth }: ReloadableConfig,
  now: () => number,
): LoginBackend {
  switch (settings.kind) {
    case 'auto':
      return createAutoBackend();
    case 'file':
      return createFileBackend(settings);
    case 'jwt':
      return createJwtBackend(settings, now);
    case 'keystone':
      return createKeystoneBackend({ authUrl: eauth.keystoneAuthUrl, domain: settings.domain });
    case 'ldap':
      return createLdapBackend(eauth);
    case 'pam':
      return createPamBackend(eauth.pamService);
    case 'sharedsecret':
      return createSharedSecretBackend(eauth.sharedsecret ?? '');
  }
}
