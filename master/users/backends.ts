import { hash } from 'node:crypto';
import { type BackendSettings, type ReloadableConfig, readBackend } from '#config';
import { isSameSecret } from '#runtime';
import type { LoginBackend } from './backend.ts';
import { createFileBackend } from './file-backend.ts';
import { createJwtBackend } from './jwt.ts';
import { createKeystoneBackend } from './keystone.ts';
import { createLdapBackend } from './ldap.ts';
import { createPamBackend } from './pam.ts';

/**
 * Creates a backend that accepts every user name and password. For tests only [salt/auth/auto.py].
 */
function createAutoBackend(): LoginBackend {
  return {
    name: 'auto',
    authenticate: async ({ username }) => ({ user: username, groups: [] }),
  };
}

/** Creates a backend with one password for all user names [salt/auth/sharedsecret.py]. */
function createSharedSecretBackend(sharedsecret: string): LoginBackend {
  return {
    name: 'sharedsecret',
    authenticate: async ({ username, password }) => {
      const isRight = sharedsecret !== '' && isSameSecret(password, sharedsecret);
      return isRight ? { user: username, groups: [] } : undefined;
    },
  };
}

/** Backends by their name under `external_auth`. Log-ins with any other name fail. */
export type Backends = ReadonlyMap<string, LoginBackend>;

/**
 * Creates the backends of a configuration. Backends with invalid options are omitted, and were
 * reported when the master started.
 * @param before - existing backends. A backend whose options are unchanged is reused with its state
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

/**
 * Returns a digest of options. Equal options have the same digest, which does not reveal their
 * secrets.
 */
function digestOf(options: unknown): string {
  return hash('sha256', JSON.stringify(options));
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
