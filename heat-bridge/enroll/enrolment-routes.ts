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
  requireValid,
  type TokenHolder,
} from '#master';
import { compileSchema } from '#runtime';
import { BridgeError } from '../errors.ts';
import { requireRight, resolveProject, withTokenHolder } from '../http/http-caller.ts';
import { describeRoute, parseForm } from '../http/route-schema.ts';
import {
  type Enrolment,
  EnrolmentSchema,
  type EnrolRequest,
  type NewEnrolment,
  ServiceEnrolRequestSchema,
} from './enrolment.ts';
import type { EnrollApi } from './enrolment-service.ts';

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
  doors: Pick<HttpServerContext, 'tokenOf'>,
  host: EnrolmentRoutesHost,
  api: Pick<EnrollApi, 'create' | 'retire' | 'show'>,
  lowestProtocol: EnrolRequest['protocol'] = 0,
): void {
  /**
   * Returns the enrolment whose number is in the path of the request. Looks it up only if rules
   * could permit the request.
   */
  const known = async (
    { params }: FastifyRequest<NumberParams>,
    right: EnrolmentRight,
    holder: TokenHolder,
  ): Promise<Enrolment> => {
    requireRight(holder, right);
    const enrolment = await api.show(params.number);
    // For an enrolment of another project, send the same error as for an unknown one.
    if (!belongsToProject(holder.subject, enrolment))
      throw new BridgeError('ERR_ENROLL_UNKNOWN', 'unknown enrolment number');
    requireEnrolmentRight(host, holder, right, enrolment);
    return enrolment;
  };
  app.post(
    '/enrolments',
    { bodyLimit: serviceBodyLimit, schema: serviceRouteSchemas.create },
    async (request): Promise<NewEnrolment> => {
      const asked = parseForm(createForm, request.body, 'ERR_ENROLL_ARGS');
      return withTokenHolder(request, doors, host, async (holder) => {
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
        return api.create(wanted, {
          requirePermission: () =>
            permittingRule(host, holder, 'bridge.enroll.create', { ...wanted, isRepeated: true }),
        });
      });
    },
  );
  app.get<NumberParams>(
    '/enrolments/:number',
    { schema: serviceRouteSchemas.show },
    (request): Promise<Enrolment> =>
      withTokenHolder(request, doors, host, (holder) =>
        known(request, 'bridge.enroll.create', holder),
      ),
  );
  app.post<NumberParams>(
    '/enrolments/:number/retire',
    { schema: serviceRouteSchemas.retire },
    (request): Promise<object> =>
      withTokenHolder(request, doors, host, async (holder) => {
        const { number } = await known(request, 'bridge.enroll.retire', holder);
        await api.retire({ number });
        return {};
      }),
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

/** Enrolment of a request. `isRepeated`: whether the request was already permitted, and waited. */
interface AskedEnrolment extends Pick<Enrolment, 'id' | 'project'> {
  readonly isRepeated?: boolean;
}

/**
 * Returns the rule that permits a request now.
 * @throws AuthenticationError if the token has ended; AuthorizationError ERR_DENIED
 */
function permittingRule(
  host: Pick<EnrolmentRoutesHost, 'decide'>,
  holder: TokenHolder,
  right: EnrolmentRight,
  { id, project, isRepeated = false }: AskedEnrolment,
): string {
  requireValid(holder);
  const kwargs = new Map([
    ['id', id],
    ['project', project],
  ]);
  const resource = {
    call: { fun: right, args: [], kwargs },
    minions: [id],
    project,
  };
  const { subject } = holder;
  const question = { subject, action: 'command', resource, isRepeated } as const;
  const { effect, rule } = host.decide(question, holder.policy);
  if (effect === 'allow') return rule;
  throw new AuthorizationError(
    `no rule permits the action ${right} for this minion id and project`,
  );
}

/**
 * Checks that a rule permits the request, and writes the audit record.
 * @throws AuthenticationError if the token has ended; AuthorizationError ERR_DENIED
 */
function requireEnrolmentRight(
  host: EnrolmentRoutesHost,
  holder: TokenHolder,
  right: EnrolmentRight,
  enrolment: Pick<Enrolment, 'id' | 'project'>,
): void {
  const rule = permittingRule(host, holder, right, enrolment);
  host.asked.noteOfActor({
    who: actorOf(holder.subject),
    action: 'enroll.asked',
    what: right,
    on: [enrolment.id],
    rule,
    outcome: 'permitted',
  });
}
