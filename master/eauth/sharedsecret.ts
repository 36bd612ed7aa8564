import type { LoginBackend } from './backend.ts';
import { isSameText } from './same-text.ts';

/** One password for everybody, who are whoever they say [salt/auth/sharedsecret.py]. */
export function createSharedSecretBackend(sharedsecret: string): LoginBackend {
  return {
    name: 'sharedsecret',
    authenticate: async ({ username, password }) => {
      const isRight = sharedsecret !== '' && isSameText(password, sharedsecret);
      return isRight ? { user: username, groups: [] } : undefined;
    },
  };
}
