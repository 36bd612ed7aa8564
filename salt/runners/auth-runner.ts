/** The `auth` runner [salt/runners/auth.py]. */

import { AuthenticationError, type Users } from '#master';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { optional, required, seconds, text } from '../functions/parameters.ts';

interface AuthRunnerDeps {
  readonly users: Users;
}

/** Returns the functions of the `auth` runner, with which users log in. */
export function authRunner({ users: { logins } }: AuthRunnerDeps): FunctionTable {
  return {
    'auth.mk_token': masterFunction({
      summary:
        'Logs in with credentials and returns a token; returns nothing if the credentials are invalid.',
      parameters: {
        username: required(text),
        password: required(text),
        eauth: required(text),
        token_expire: optional(seconds),
      },
      isConfidential: true,
      call: async ({ username, password, eauth, token_expire: tokenExpireSeconds }, { by }) => {
        const request = {
          ...{ username, password, eauth },
          ...(tokenExpireSeconds === undefined ? {} : { tokenExpireSeconds }),
          // Remote users may call this function. Therefore `api_acl` applies, and all failed
          // log-ins through it count for one source.
          ...(by === undefined ? {} : { source: 'runner' }),
        };
        try {
          const { user, groups, start, expire, token } = await logins.login(request);
          const times = { start: start / 1000, expire: expire / 1000 };
          const known = groups.length === 0 ? {} : { groups: [...groups] };
          return { token, ...times, name: user, eauth, ...known };
        } catch (error) {
          if (error instanceof AuthenticationError && error.code === 'ERR_EAUTH') return {};
          throw error;
        }
      },
    }),
    'auth.del_token': masterFunction({
      summary: 'Revokes a token.',
      parameters: { token: required(text) },
      isConfidential: true,
      call: ({ token }) => logins.logout(token),
    }),
  };
}
