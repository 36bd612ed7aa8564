/** `/hook`, which publishes requests of external services as events [THREATS A-14]. */
import type { FastifyInstance, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { isWireMap, type WireMap } from '#minion-protocol';
import { type ApiContext, bodyOf, requireSession, sendAnswer } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { formatFor } from '../formats.ts';
import { addRoute } from './route.ts';
import { hookSchema } from './schemas.ts';

const prefix = 'salt/netapi/hook';

/** Form that a path must have to be part of an event tag. */
const pathForm = /^(?!\.{1,2}(?:\/|$))[\w.:@+-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.:@+-]+)*$/;
const maxPath = 200;

/**
 * Headers that are removed from events. With them, readers of the events could impersonate the
 * sender.
 */
const secretHeaders: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'proxy-authorization',
  'x-auth-token',
]);

/**
 * Caller in the audit log for requests without authentication, which `webhook_disable_auth`
 * permits.
 */
const anybody = { who: { kind: 'user', name: '' }, rule: 'webhook_disable_auth' } as const;

export function addHookRoutes(app: FastifyInstance, context: ApiContext): void {
  const { master, options } = context;
  const handle: RouteHandlerMethod = async (request, reply) => {
    formatFor(request.headers.accept);
    if (options.webhookDisableAuth) {
      await master.events.fire(tagOf(request), await dataOf(context, request), anybody);
    } else {
      const { user } = await requireSession(context, request);
      await user.events.fire(tagOf(request), await dataOf(context, request));
    }
    return sendAnswer(context, request, reply.header('cache-control', 'private'), {
      success: true,
    });
  };
  for (const url of [options.webhookUrl, `${options.webhookUrl}/*`]) {
    addRoute(app, url, { POST: { schema: hookSchema, handle } });
  }
}

function tagOf({ params }: FastifyRequest): string {
  const rest = Object.entries(params ?? {}).find(([name]) => name === '*')?.[1];
  if (rest === undefined || rest === '') return prefix;
  if (typeof rest === 'string' && rest.length <= maxPath && pathForm.test(rest)) {
    return `${prefix}/${rest}`;
  }
  throw new SaltApiError(
    'ERR_HTTP_UNKNOWN',
    'the path after /hook contains characters that are not allowed in an event tag',
  );
}

async function dataOf(context: ApiContext, request: FastifyRequest): Promise<WireMap> {
  const { value, text } = await bodyOf(context, request);
  const headers: WireMap = Object.create(null);
  for (const [name, header] of Object.entries(request.headers)) {
    if (header !== undefined && !secretHeaders.has(name)) headers[titleCase(name)] = String(header);
  }
  headers['Remote-Addr'] = request.ip;
  const post = isWireMap(value) || Array.isArray(value) ? value : {};
  return { post, body: text, headers };
}

/** Returns the name of a header in the form that CherryPy uses, for example `Content-Type`. */
function titleCase(name: string): string {
  return name.replace(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase());
}
