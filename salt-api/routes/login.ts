/** `/login`, `/logout` and `/token` [CONTRACT 2.1 to 2.3]. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Login, type LoginRequest, toPlainValue } from '../../master/index.ts';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { type ApiContext, answer, bodyOf, requireSession } from '../context.ts';
import { sessionCookie } from '../credentials.ts';
import { SaltApiError } from '../errors.ts';
import { formatFor } from '../formats.ts';
import { lowstatesOf } from '../lowstate.ts';
import {
  loginHintOperation,
  loginOperation,
  logoutOperation,
  tokenOperation,
} from '../operations.ts';
import { formsOf, toLogin } from './login-form.ts';
import { addResource } from './resource.ts';
import { welcoming } from './welcome.ts';

/** Bytes of a log-in: whoever sends one is nobody yet. */
const bodyLimit = 8192;

export function addLoginRoutes(app: FastifyInstance, context: ApiContext): void {
  const { master, options, sessions } = context;
  const { sessionIdle } = options;
  if (options.enableSessions) {
    addResource(app, '/login', {
      bodyLimit,
      GET: {
        about: loginHintOperation,
        handle: (request, reply) => {
          reply.header('www-authenticate', 'Session');
          return answer(context, request, reply, { status: null, return: 'Please log in' });
        },
      },
      POST: {
        about: loginOperation,
        handle: async (request, reply) => {
          formatFor(request.headers.accept);
          const login = await master.logins.login(await loginRequest(context, request));
          const token = sessions.open(login.token);
          const cookie = sessionCookie(token, sessionIdle, isSecure(request));
          reply.header('x-auth-token', token).header('set-cookie', cookie);
          return answer(context, request, reply, { return: [describeLogin(login, token)] });
        },
      },
    });
    addResource(app, '/logout', {
      POST: {
        about: logoutOperation,
        handle: async (request, reply) => {
          formatFor(request.headers.accept);
          const { token, sessionToken } = await requireSession(context, request);
          sessions.close(sessionToken);
          await master.logins.logout(token);
          reply.header('cache-control', 'private');
          reply.header('set-cookie', sessionCookie(sessionToken, 0, isSecure(request)));
          return answer(context, request, reply, { return: 'Your token has been cleared' });
        },
      },
    });
  }
  addResource(app, '/token', {
    bodyLimit,
    GET: welcoming(context),
    POST: {
      about: tokenOperation,
      handle: async (request, reply) => {
        formatFor(request.headers.accept);
        return answer(context, request, reply, await makeTokens(context, request));
      },
    },
  });
}

async function makeTokens(context: ApiContext, request: FastifyRequest): Promise<WireValue> {
  const tokens: WireMap[] = [];
  const forms = lowstatesOf((await bodyOf(context, request)).value);
  for (const fields of forms) {
    if (['username', 'password', 'eauth'].some((name) => fields[name] === undefined)) {
      throw new SaltApiError('ERR_HTTP_FIELDS', 'expected username, password and eauth');
    }
  }
  for (const fields of forms) {
    const {
      user: name,
      groups,
      ...login
    } = await context.master.logins.login(toLogin(fields, request.ip));
    tokens.push({
      start: login.start / 1000,
      expire: login.expire / 1000,
      name,
      eauth: login.eauth,
      ...(groups.length === 0 ? {} : { groups: [...groups] }),
      token: login.token,
    });
  }
  return tokens;
}

/** @param token of the session; Salt's own is not told */
function describeLogin({ start, expire, user, eauth, perms }: Login, token: string): WireMap {
  const rights = perms.map((entry) => toPlainValue(entry));
  return {
    token,
    expire: expire / 1000,
    start: start / 1000,
    user,
    eauth,
    // As Salt says that there are none.
    perms: rights.length === 0 ? {} : rights,
  };
}

async function loginRequest(context: ApiContext, request: FastifyRequest): Promise<LoginRequest> {
  const [fields] = formsOf((await bodyOf(context, request)).value);
  return toLogin(fields ?? {}, request.ip);
}

function isSecure({ protocol }: FastifyRequest): boolean {
  return protocol === 'https';
}
