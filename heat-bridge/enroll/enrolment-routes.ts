/**
 * HTTP routes of enrolments for services. Rules authorise each request by its minion id and
 * project.
 */

import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import Type from 'typebox';
import type { Subject } from '#acl';
import {
  type AuditBursts,
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  type HttpServerContext,
} from '#master';
import { compileSchema } from '#runtime';
import { BridgeError } from '../errors.ts';
import { requireRight, resolveProject } from '../http/http-caller.ts';
import { describeRoute, parseForm } from '../http/route-schema.ts';
import {
  type Enrolment,
  EnrolmentSchema,
  type EnrolRequest,
  type NewEnrolment,
  ServiceEnrolRequestSchema,
} from './enrolment.ts';
import type { EnrollApi } from './enrolment-service.ts';

type TokenHolder = Awaited<ReturnType<ExtensionHost['holdToken']>>;

/** Schemas of the routes for services. */
const serviceRouteSchemas: Readonly<Record<'create' | 'show' | 'retire', FastifySchema>> = {
  create: describeRoute({
    summary: 'Creates an enrolment with a ticket, and user-data for the machine',
    body: ServiceEnrolRequestSchema,
    answer: Type.Object({
      enrolment: EnrolmentSchema,
      ticket: Type.String(),
      userData: Type.String(),
    }),
  }),
  show: describeRoute({ summary: 'Returns an enrolment', answer: EnrolmentSchema }),
  retire: describeRoute({
    summary: 'Retires the machine of an enrolment: its key, sessions and data',
    answer: Type.Object({}),
  }),
};

/** Services of the master that the routes use. */
interface EnrolmentRoutesHost extends Pick<ExtensionHost, 'decide' | 'holdToken'> {
  /** Combines repeated audit records, because a caller can repeat its requests without limit. */
  readonly asked: Pick<AuditBursts, 'noteOfActor'>;
}

/** Rights that a rule of the action `command` can grant. */
type EnrolmentRight = 'bridge.enroll.create' | 'bridge.enroll.retire';

interface NumberParams {
  readonly Params: { readonly number: string };
}

const serviceBodyLimit = 524_288;
const createForm = compileSchema(ServiceEnrolRequestSchema);

/**
 * Adds the routes `POST enrolments`, `GET enrolments/<number>` and
 * `POST enrolments/<number>/retire`. A rule for the action `command` must permit the caller to call
 * `bridge.enroll.create` or `bridge.enroll.retire`, with the keyword arguments `id` and `project`
 * of the enrolment. With a Keystone token, only enrolments of the token's project are accessible.
 */
export function addServiceRoutes(
  app: FastifyInstance,
  doors: HttpServerContext,
  host: EnrolmentRoutesHost,
  api: EnrollApi,
  lowestProtocol: EnrolRequest['protocol'] = 0,
): void {
  const holderOf = async (request: FastifyRequest): Promise<TokenHolder> => {
    const holder = await host.holdToken(doors.tokenOf(request) ?? '', request.ip);
    holder.stop();
    return holder;
  };
  /**
   * Returns the enrolment whose number is in the path of the request. Looks it up only if rules
   * could permit the request.
   */
  const known = async (
    request: FastifyRequest<NumberParams>,
    right: EnrolmentRight,
  ): Promise<{ readonly holder: TokenHolder; readonly enrolment: Enrolment }> => {
    const holder = await holderOf(request);
    requireRight(holder, right);
    const enrolment = await api.show(request.params.number);
    if (belongsToProject(holder.subject, enrolment)) return { holder, enrolment };
    // For an enrolment of another project, send the same error as for an unknown one.
    throw new BridgeError('ERR_ENROLL_UNKNOWN', 'unknown enrolment number');
  };
  app.post(
    '/enrolments',
    { bodyLimit: serviceBodyLimit, schema: serviceRouteSchemas.create },
    async (request): Promise<NewEnrolment> => {
      const asked = parseForm(createForm, request.body, 'ERR_ENROLL_ARGS');
      const holder = await holderOf(request);
      const project = resolveProject(holder.subject, asked.project);
      if (project === undefined) {
        throw new BridgeError(
          'ERR_ENROLL_ARGS',
          'project: required, because the token belongs to no project',
        );
      }
      const { lifetime, ...more } = asked;
      const lasts = lifetime === undefined ? {} : { lifetimeSeconds: lifetime };
      const wanted = { ...more, ...lasts, project };
      requireEnrolmentRight(host, holder, 'bridge.enroll.create', wanted);
      checkMinimumProtocol(wanted.protocol, lowestProtocol);
      return api.create(wanted);
    },
  );
  app.get<NumberParams>(
    '/enrolments/:number',
    { schema: serviceRouteSchemas.show },
    async (request): Promise<Enrolment> => {
      const { holder, enrolment } = await known(request, 'bridge.enroll.create');
      requireEnrolmentRight(host, holder, 'bridge.enroll.create', enrolment);
      return enrolment;
    },
  );
  app.post<NumberParams>(
    '/enrolments/:number/retire',
    { schema: serviceRouteSchemas.retire },
    async (request): Promise<object> => {
      const { holder, enrolment } = await known(request, 'bridge.enroll.retire');
      requireEnrolmentRight(host, holder, 'bridge.enroll.retire', enrolment);
      await api.retire({ number: enrolment.number });
      return {};
    },
  );
}

/**
 * Checks the protocol version in a request. It must not be lower than the operator's option
 * `protocol`.
 * @throws BridgeError ERR_ENROLL_ARGS
 */
function checkMinimumProtocol(asked: number | undefined, lowest: number): void {
  if (asked === undefined || asked >= lowest) return;
  const text = `protocol: ${asked} is too low; the option \`enroll: protocol\` requires ${lowest} or more`;
  throw new BridgeError('ERR_ENROLL_ARGS', text);
}

function belongsToProject(subject: Subject, { project }: Enrolment): boolean {
  return subject.kind !== 'project' || subject.project.id === project;
}

/**
 * Checks that a rule permits the request, and writes the audit record.
 * @throws AuthorizationError ERR_DENIED
 */
function requireEnrolmentRight(
  host: EnrolmentRoutesHost,
  { subject, policy }: TokenHolder,
  right: EnrolmentRight,
  { id, project }: Pick<Enrolment, 'id' | 'project'>,
): void {
  const kwargs = new Map([
    ['id', id],
    ['project', project],
  ]);
  const resource = {
    call: { fun: right, args: [], kwargs },
    minions: [id],
    project,
  };
  const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy);
  if (effect === 'deny') {
    throw new AuthorizationError(
      `no rule permits the action ${right} for this minion id and project`,
    );
  }
  host.asked.noteOfActor({
    who: actorOf(subject),
    action: 'enroll.asked',
    what: right,
    on: [id],
    rule,
    outcome: 'permitted',
  });
}
