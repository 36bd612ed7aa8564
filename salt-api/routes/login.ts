/** `/login`, `/logout` and `/token`. */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Login, type LoginRequest, toPlainValue } from '#master';
import { isWireMap, plainNumber, type WireMap, type WireValue } from '#minion-protocol';
import { type ApiContext, bodyOf, requireSession, sendAnswer } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { formatFor } from '../formats.ts';
import { isSecure } from '../host-guard.ts';
import { lowstatesOf } from '../lowstate.ts';
import { isCrossSite, sessionCookie } from '../session-token.ts';
import { addRoute, type RouteMethod } from './route.ts';
import {
  loginHintSchema,
  loginSchema,
  logoutSchema,
  tokenSchema,
  welcomeSchema,
} from './schemas.ts';

/**
 * Converts the fields of a request to a log-in. A value that is not text is treated as invalid
 * credentials, so that the response does not reveal the difference.
 */
export function toLoginRequest(fields: Readonly<WireMap>, source: string): LoginRequest {
  const text = (name: string): string => {
    const value = fields[name];
    return typeof value === 'string' ? value : '';
  };
  const expire = plainNumber(fields.token_expire);
  return {
    username: text('username'),
    password: text('password'),
    eauth: text('eauth'),
    source,
    // The value of a form field is always text.
    ...(typeof expire === 'number' || typeof expire === 'string'
      ? { tokenExpireSeconds: Number(expire) }
      : {}),
  };
}

/** Returns the maps in a body. A log-in is a map, or a list of one map. */
export function loginForms(value: WireValue | undefined): readonly WireMap[] {
  if (isWireMap(value)) return [value];
  return Array.isArray(value) ? value.slice(0, 1).filter(isWireMap) : [];
}

/** Creates the method `GET /`, which lists the served clients. It needs no log-in. */
export function welcomeMethod(context: ApiContext): RouteMethod {
  return {
    schema: welcomeSchema,
    handle: (request, reply) => sendAnswer(context, request, reply, welcome(context)),
  };
}

function welcome({ clients }: ApiContext): WireMap {
  return { return: 'Welcome', clients: [...clients] };
}

/**
 * Maximum size of a log-in request, in bytes. It is small, because its sender is not authenticated
 * yet.
 */
const bodyLimit = 8192;

export function addLoginRoutes(app: FastifyInstance, context: ApiContext): void {
  const { master, options, sessions } = context;
  const { sessionIdleSeconds } = options;
  if (options.enableSessions) {
    addRoute(app, '/login', {
      bodyLimit,
      GET: {
        schema: loginHintSchema,
        handle: (request, reply) => {
          reply.header('www-authenticate', 'Session');
          return sendAnswer(context, request, reply, { status: null, return: 'Please log in' });
        },
      },
      POST: {
        schema: loginSchema,
        handle: async (request, reply) => {
          formatFor(request.headers.accept);
          const login = await master.logins.login(await loginRequest(context, request));
          const token = await sessions.open(login.token, login);
          reply.header('x-auth-token', token);
          // A page of another site must not log the browser in as a user of its choice.
          if (!isCrossSite(request.headers)) {
            const cookie = sessionCookie(token, sessionIdleSeconds, isSecure(request));
            reply.header('set-cookie', cookie);
          }
          return sendAnswer(context, request, reply, { return: [describeLogin(login, token)] });
        },
      },
    });
    addRoute(app, '/logout', {
      POST: {
        schema: logoutSchema,
        handle: async (request, reply) => {
          formatFor(request.headers.accept);
          const { token, sessionToken } = await requireSession(context, request);
          await Promise.all([sessions.close(sessionToken), master.logins.logout(token)]);
          reply.header('cache-control', 'private');
          reply.header('set-cookie', sessionCookie(sessionToken, 0, isSecure(request)));
          return sendAnswer(context, request, reply, { return: 'Your token has been cleared' });
        },
      },
    });
  }
  addRoute(app, '/token', {
    bodyLimit,
    GET: welcomeMethod(context),
    POST: {
      schema: tokenSchema,
      handle: async (request, reply) => {
        formatFor(request.headers.accept);
        return sendAnswer(context, request, reply, await makeTokens(context, request));
      },
    },
  });
}

async function makeTokens(context: ApiContext, request: FastifyRequest): Promise<WireValue> {
  const tokens: WireMap[] = [];
  const forms = lowstatesOf((await bodyOf(context, request)).value);
  for (const fields of forms) {
    if (['username', 'password', 'eauth'].some((name) => fields[name] === undefined)) {
      throw new SaltApiError('ERR_HTTP_FIELDS', 'username, password and eauth are required');
    }
  }
  for (const fields of forms) {
    const {
      user: name,
      groups,
      ...login
    } = await context.master.logins.login(toLoginRequest(fields, request.ip));
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

/**
 * Describes a log-in for the response. Salt's own token is left out.
 * @param token - token of the session
 */
function describeLogin({ start, expire, user, eauth, perms }: Login, token: string): WireMap {
  const rights = perms.map((entry) => toPlainValue(entry));
  return {
    token,
    expire: expire / 1000,
    start: start / 1000,
    user,
    eauth,
    // Salt represents a user without rights in this way.
    perms: rights.length === 0 ? {} : rights,
  };
}

async function loginRequest(context: ApiContext, request: FastifyRequest): Promise<LoginRequest> {
  const [fields] = loginForms((await bodyOf(context, request)).value);
  return toLoginRequest(fields ?? {}, request.ip);
}
