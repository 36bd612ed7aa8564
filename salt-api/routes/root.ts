/** `/` and `/run`, which execute commands. */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { AnswerBytes } from '../answer-bytes.ts';
import { checkClient, LowstateAnswer } from '../clients.ts';
import {
  type ApiContext,
  bodyOf,
  type Caller,
  type LoginContext,
  requestEndSignal,
  requireSession,
  resolveCaller,
  sendAnswer,
} from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { formatFor, prefersPage } from '../formats.ts';
import { type Lowstate, lowstatesOf } from '../lowstate.ts';
import { toLoginRequest, welcomeMethod } from './login.ts';
import { addRoute } from './route.ts';
import { commandSchema, runSchema } from './schemas.ts';

/**
 * Adds the routes.
 * @param page - handler of `/` for browsers; default: browsers get the same response as programs
 */
export function addRootRoutes(
  app: FastifyInstance,
  context: ApiContext,
  page?: RouteHandlerMethod,
): void {
  const programs = welcomeMethod(context);
  addRoute(app, '/', {
    GET: {
      schema: programs.schema,
      handle(request, reply) {
        const isForPeople = page !== undefined && prefersPage(request.headers.accept);
        reply.header('vary', 'Accept, Origin');
        return (isForPeople ? page : programs.handle).call(this, request, reply);
      },
    },
    POST: {
      schema: commandSchema(context.clients),
      handle: async (request, reply) => {
        formatFor(request.headers.accept);
        const caller = await requireSession(context, request);
        const lows = await commandsOf(context, request, caller);
        const end = requestEndSignal(context, reply);
        const answer = new LowstateAnswer(AnswerBytes.of(context.answerBudget, reply));
        for (const low of lows) await answer.execute(context, caller, low, end);
        reply.header('cache-control', 'private');
        return sendAnswer(context, request, reply, answer.body, caller);
      },
    },
  });
  addRoute(app, '/run', {
    GET: welcomeMethod(context),
    POST: {
      schema: runSchema(context.clients),
      handle: async (request, reply) => {
        formatFor(request.headers.accept);
        const answer = await runWithCredentials(context, request, reply);
        return sendAnswer(context, request, reply, answer.body);
      },
    },
  });
}

/**
 * Returns the commands of a request. All of them are checked before the first one is executed.
 * @throws SaltApiError ERR_HTTP_BODY, ERR_HTTP_CLIENT
 */
async function commandsOf(
  context: ApiContext,
  request: FastifyRequest,
  caller?: Caller,
): Promise<Lowstate[]> {
  const by = caller === undefined ? {} : { caller };
  const lows = lowstatesOf((await bodyOf(context, request, { isCommand: true, ...by })).value);
  for (const low of lows) checkClient(context, low);
  return lows;
}

/**
 * Runs commands that each contain their own credentials. Credentials in the header and the cookie
 * are ignored.
 */
async function runWithCredentials(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<LowstateAnswer> {
  const lows = await commandsOf(context, request);
  const end = requestEndSignal(context, reply);
  const answer = new LowstateAnswer(AnswerBytes.of(context.answerBudget, reply));
  for (const low of lows) {
    const { caller, leave } = await identifyCaller(context, low, request.ip);
    try {
      await answer.execute(context, caller, low, end);
    } finally {
      await leave();
    }
  }
  return answer;
}

/**
 * Identifies the caller of a command by its token, or else by its other credentials. A log-in with
 * credentials is valid for this command only.
 */
export async function identifyCaller(
  context: LoginContext,
  low: Lowstate,
  source: string,
): Promise<{ readonly caller: Caller; leave(): Promise<void> }> {
  const { token, username } = low;
  if (token !== undefined) {
    const caller = await resolveCaller(context, typeof token === 'string' ? token : '');
    return { caller, leave: async () => {} };
  }
  if (username === undefined) throw new SaltApiError('ERR_HTTP_SESSION', 'no credentials');
  const login = await context.master.logins.login(toLoginRequest(low, source));
  const leave = async (): Promise<void> => {
    await context.master.logins.logout(login.token);
  };
  try {
    return { caller: await resolveCaller(context, login.token), leave };
  } catch (error) {
    // The master reports the first error, also if it can no longer end the log-in.
    await leave().catch(() => {});
    throw error;
  }
}
