/** `/status`, and `/` for browsers: a page about the state of the master. */

import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { literalGlob } from '#acl';
import { AuthenticationError, type Login, masterServices } from '#master';
import { isWireMap, type WireMap } from '#minion-protocol';
import { isSameSecret, linkSignals } from '#runtime';
import { AnswerBytes } from '../answer-bytes.ts';
import {
  type ApiContext,
  bodyOf,
  type Caller,
  requestEndSignal,
  requireSession,
  resolveCaller,
  type SessionCaller,
  streamOwnerOf,
  tokenExpirySignal,
  userOwner,
} from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { queryOf } from '../event-request.ts';
import { isSecure } from '../host-guard.ts';
import { toLoginRequest } from '../routes/login.ts';
import { addRoute } from '../routes/route.ts';
import { isCrossSite, sessionCookie } from '../session-token.ts';
import { icon, script, style } from './assets.ts';
import type { Html } from './html.ts';
import { createSharedViews, explainDenial, overviewOf } from './overview.ts';
import { explanationPage, loginPage, sitePage, statusPage } from './pages.ts';
import {
  assetSchema,
  decideSchema,
  explainSchema,
  pageLoginSchema,
  pageLogoutSchema,
  pageSchema,
  sectionsSchema,
  siteSchema,
} from './schemas.ts';
import { streamSections } from './section-stream.ts';
import { StatusHistory } from './status-history.ts';

/**
 * Content security policy of the page. It allows only resources of this server, and only its own
 * script.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types saltbridge',
].join('; ');

const bodyLimit = 65_536;

/** Messages about the result of a form, by their names in the query of the URL. */
const notices: ReadonlyMap<string, string> = new Map([
  ['accept', 'The key was accepted.'],
  ['reject', 'The key was rejected.'],
  [
    'other',
    'Nothing was changed: the key is no longer pending, or the minion has sent another key.',
  ],
  ['denied', 'Nothing was changed: you may not decide on keys.'],
]);

/**
 * Adds the routes of the status page.
 * @returns the handler of `/` for browsers
 */
export function addStatusRoutes(app: FastifyInstance, context: ApiContext): RouteHandlerMethod {
  const { master, options, sessions, closing } = context;
  const base = `${options.rootPrefix}/status`;
  const history = new StatusHistory(master);
  history.start(closing);
  const sites = options.extensionHost?.find(masterServices.sites);
  const views = createSharedViews(master, history, sites);
  const show: RouteHandlerMethod = async (request, reply) => {
    const caller = await tryCaller(context, request);
    if (caller === undefined) return sendPage(reply, loginPage(base, options.eauths));
    const overview = await overviewOf(master, views, caller);
    const places = { base, formToken: formTokenOf(caller) };
    return sendUserPage(context, reply, caller, statusPage(overview, places, noticeOf(request)));
  };
  addRoute(app, '/status', { GET: { schema: pageSchema, handle: show } });
  addAssets(app);
  addRoute(app, '/status/explain', {
    GET: {
      schema: explainSchema,
      handle: async (request, reply) => {
        const caller = await requireSession(context, request);
        const query = queryOf(request.url);
        const [minion, tag] = [query.get('minion') ?? '', query.get('tag') ?? ''];
        const found = await explainDenial(master, caller.user, minion, tag);
        if (found === undefined) throw new SaltApiError('ERR_HTTP_UNKNOWN', 'denial not found');
        return sendUserPage(context, reply, caller, explanationPage(base, found));
      },
    },
  });
  addRoute(app, '/status/site', {
    GET: {
      schema: siteSchema,
      handle: async (request, reply) => {
        const caller = await requireSession(context, request);
        const name = queryOf(request.url).get('name') ?? '';
        await caller.user.requireFullRights('site.show');
        const site = await sites?.siteDetails(name);
        if (site === undefined) throw new SaltApiError('ERR_HTTP_UNKNOWN', 'site not found');
        return sendUserPage(context, reply, caller, sitePage(base, site));
      },
    },
  });
  addRoute(app, '/status/stream', {
    hasHead: false,
    GET: {
      schema: sectionsSchema,
      handle: async (request, reply) => {
        const caller = await requireSession(context, request);
        const leave = context.streams.enter(streamOwnerOf(caller), request.raw.socket);
        const end = linkSignals(requestEndSignal(context, reply), tokenExpirySignal(caller)).signal;
        const places = { base, formToken: formTokenOf(caller) };
        const look = async () =>
          overviewOf(master, views, await resolveCaller(context, caller.token));
        const { sendPool } = context;
        await streamSections(reply, { loadOverview: look, places, sendPool, end }).finally(leave);
        return reply;
      },
    },
  });
  addRoute(app, '/status/login', {
    bodyLimit,
    POST: {
      schema: pageLoginSchema,
      handle: async (request, reply) => {
        requireOwnSite(request);
        const login = await tryLogin(context, request);
        if (login === undefined) {
          return sendPage(
            reply,
            loginPage(
              base,
              options.eauths,
              'The log-in failed: check the user name, the password and the back end.',
            ),
            401,
          );
        }
        const token = await sessions.open(login.token, login);
        const cookie = sessionCookie(token, options.sessionIdleSeconds, isSecure(request));
        return reply.header('set-cookie', cookie).redirect(base, 303);
      },
    },
  });
  addRoute(app, '/status/logout', {
    bodyLimit,
    POST: {
      schema: pageLogoutSchema,
      handle: async (request, reply) => {
        const { token, sessionToken } = await requireForm(context, request);
        await Promise.all([sessions.close(sessionToken), master.logins.logout(token)]);
        const cookie = sessionCookie(sessionToken, 0, isSecure(request));
        return reply.header('set-cookie', cookie).redirect(base, 303);
      },
    },
  });
  addRoute(app, '/status/keys', {
    bodyLimit,
    POST: {
      schema: decideSchema,
      handle: async (request, reply) => {
        const { fields, user } = await requireForm(context, request);
        const result = await decideKey(user, fields);
        views.pending.forget();
        views.status.forget();
        return reply.redirect(`${base}?told=${result}`, 303);
      },
    },
  });
  return show;
}

/**
 * Accepts or rejects a key, as the submitted form requests.
 * @returns the name of the message that the page then shows
 */
async function decideKey(user: Caller['user'], fields: WireMap): Promise<string> {
  const { action, id, fingerprint } = fields;
  if (typeof id !== 'string' || typeof fingerprint !== 'string' || fingerprint === '') {
    throw new SaltApiError('ERR_HTTP_FIELDS', 'id and fingerprint are required');
  }
  if (action !== 'accept' && action !== 'reject') {
    throw new SaltApiError('ERR_HTTP_FIELDS', 'action: must be accept or reject');
  }
  const fun = `key.${action}`;
  if (!(await user.permits('wheel', fun))) return 'denied';
  const kwarg = { match: literalGlob(id), fingerprint };
  const { success } = await user.wheel.run({ fun, kwarg });
  return success ? action : 'other';
}

/**
 * Checks that a form was sent by a page of this session: it must come with the session cookie and
 * with the token of the form. Pages of other sites cannot read this token.
 */
async function requireForm(
  context: ApiContext,
  request: FastifyRequest,
): Promise<SessionCaller & { readonly fields: WireMap }> {
  requireOwnSite(request);
  const caller = await requireSession(context, request);
  const { value } = await bodyOf(context, request, { caller });
  const fields = isWireMap(value) ? value : {};
  const given = typeof fields.form === 'string' ? fields.form : '';
  if (!isSameSecret(given, formTokenOf(caller))) {
    throw new SaltApiError('ERR_HTTP_SESSION', 'the form belongs to another session');
  }
  return { ...caller, fields };
}

/**
 * Rejects a request that a page of another site has sent, even if it has no session.
 * @throws SaltApiError ERR_HTTP_SESSION
 */
function requireOwnSite({ headers }: FastifyRequest): void {
  if (isCrossSite(headers))
    throw new SaltApiError('ERR_HTTP_SESSION', 'the form was sent by another site');
}

function formTokenOf({ sessionToken }: SessionCaller): string {
  return hash('sha256', `form of the status page ${sessionToken}`);
}

/**
 * Logs a user in.
 * @returns the log-in, or `undefined` if it failed
 */
async function tryLogin(context: ApiContext, request: FastifyRequest): Promise<Login | undefined> {
  const { value } = await bodyOf(context, request);
  try {
    const fields = isWireMap(value) ? value : {};
    return await context.master.logins.login(toLoginRequest(fields, request.ip));
  } catch (error) {
    if (error instanceof AuthenticationError) return undefined;
    throw error;
  }
}

async function tryCaller(
  context: ApiContext,
  request: FastifyRequest,
): Promise<SessionCaller | undefined> {
  try {
    return await requireSession(context, request);
  } catch (error) {
    if (error instanceof SaltApiError || error instanceof AuthenticationError) return undefined;
    throw error;
  }
}

function addAssets(app: FastifyInstance): void {
  const assets = [
    ['style.css', 'text/css; charset=utf-8', style],
    ['icon.svg', 'image/svg+xml', icon],
    ['script.js', 'text/javascript; charset=utf-8', script],
  ] as const;
  for (const [name, type, text] of assets) {
    addRoute(app, `/status/${name}`, {
      GET: {
        schema: assetSchema,
        handle: (_request, reply) =>
          reply.type(type).header('cache-control', 'no-cache').send(text),
      },
    });
  }
}

/** Sends a page to a user, and counts it towards the limit of the user until it is sent. */
function sendUserPage(
  { answerBudget }: ApiContext,
  reply: FastifyReply,
  caller: SessionCaller,
  page: Html,
): FastifyReply {
  AnswerBytes.of(answerBudget, reply).take(userOwner(caller), page.text);
  return sendPage(reply, page);
}

function sendPage(reply: FastifyReply, { text }: Html, status = 200): FastifyReply {
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .header('content-security-policy', policy)
    .header('cache-control', 'no-store')
    .send(text);
}

function noticeOf(request: FastifyRequest): string | undefined {
  return notices.get(queryOf(request.url).get('told') ?? '');
}
