/**
 * Dynamic vendordata of Nova: user-data that enrols an instance. Nova requests it whenever an
 * instance reads its metadata. The response contains the same ticket until the instance has used
 * it, and is then empty.
 */

import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import Type, { type Static } from 'typebox';
import { describeRoute, parseForm, requireRight } from '#heat-bridge';
import {
  type AuditBursts,
  AuthenticationError,
  actorOf,
  type ExtensionHost,
  type HttpServerContext,
} from '#master';
import { compileSchema, TokenBuckets } from '#runtime';
import { guestLimits } from '../limits.ts';
import type { parseVendordata } from './agent-section.ts';
import type { InstanceEnrolments, InstanceRequest } from './instance-enrolments.ts';

type VendordataOptions = ReturnType<typeof parseVendordata>;

const Id = Type.String({ pattern: '^[A-Za-z0-9-]{1,64}$' });
const Text = Type.Union([Type.String({ maxLength: 255 }), Type.Null()]);
/**
 * Request of Nova [nova/api/metadata/vendordata_dynamic.py]. Other releases may send more keys.
 * Fields that users of the project can change are ignored.
 */
const RequestSchema = Type.Object({
  'project-id': Id,
  'instance-id': Id,
  'image-id': Type.Optional(Text),
  hostname: Type.Optional(Text),
});
const requestCheck = compileSchema(RequestSchema);

type VendordataRequest = Static<typeof RequestSchema>;

/** Name of the right to request vendordata, in rules of the action `command`. */
const vendordataRight = 'bridge.vendordata';
/**
 * Maximum size of a request, in bytes. The request contains the user-data of the instance: up to 64
 * KiB, in base64.
 */
const bodyLimit = 262_144;

/** Returns vendordata for instances. */
export class Vendordata {
  readonly #options: VendordataOptions;
  readonly #enrolments: InstanceEnrolments;
  readonly #log: Pick<Logger, 'warn'>;

  constructor(
    options: VendordataOptions,
    enrolments: InstanceEnrolments,
    log: Pick<Logger, 'warn'>,
  ) {
    this.#options = options;
    this.#enrolments = enrolments;
    this.#log = log;
  }

  /**
   * Returns user-data with a ticket. Returns `undefined` if the instance has used its ticket or
   * cannot get one.
   */
  async answer(asked: VendordataRequest): Promise<string | undefined> {
    const answer = await this.#enrolments.userDataFor(this.#requestFor(asked));
    if ('userData' in answer) return answer.userData;
    const { code, refusal: reason } = answer;
    const instance = asked['instance-id'];
    if (code !== undefined)
      this.#log.warn(
        { code, reason, instance },
        'sent empty vendordata to an instance, because the enrolment of the instance was rejected',
      );
    return undefined;
  }

  #requestFor(asked: VendordataRequest): InstanceRequest {
    const { id, ticketLifetime, agent, masters } = this.#options;
    const { 'instance-id': instance, 'project-id': project, hostname } = asked;
    return {
      id: minionIdOf(id, { uuid: instance, name: hostname ?? '', project }),
      project,
      instance,
      agent,
      ...(masters === undefined ? {} : { masters }),
      ...(ticketLifetime === undefined ? {} : { lifetimeSeconds: ticketLifetime }),
    };
  }
}

/**
 * Returns the minion id of an instance.
 * @param form - pattern with `{uuid}`, `{name}` and `{project}`
 */
export function minionIdOf(
  form: string,
  { uuid, name, project }: Readonly<Record<'name' | 'project' | 'uuid', string>>,
): string {
  const values = new Map(Object.entries({ uuid, name, project }));
  return form.replaceAll(/\{(uuid|name|project)\}/g, (_, key: string) => values.get(key) ?? '');
}

const operation = describeRoute({
  summary: "Returns Nova's dynamic vendordata: user-data that enrols the instance, or {}",
  body: RequestSchema,
  answer: Type.Union([Type.String(), Type.Object({})]),
});

/**
 * Adds the route `POST vendordata`, which Nova calls. The token must belong to a service. A rule
 * for the action `command` must permit this service to call `bridge.vendordata`, with the keyword
 * arguments `project`, `instance`, `image` and `name` of the instance. If no rule permits the call,
 * the response is `{}`.
 * @param bursts - combines repeated audit records
 */
export function addVendordataRoute(
  app: FastifyInstance,
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'decide' | 'holdToken'>,
  vendordata: Vendordata,
  bursts: Pick<AuditBursts, 'note'>,
): void {
  const rates = new TokenBuckets(guestLimits.vendordataRate);
  app.post(
    '/vendordata',
    { bodyLimit, schema: operation },
    async (request, reply): Promise<object> => {
      const asked = parseForm(requestCheck, request.body, 'ERR_ENROLL_ARGS');
      const { subject, policy, stop } = await host.holdToken(
        doors.tokenOf(request) ?? '',
        request.ip,
      );
      stop();
      requireRight({ subject, policy }, vendordataRight);
      const instance = asked['instance-id'];
      if (rates.take(instance) > 0) {
        throw new AuthenticationError(
          'ERR_EAUTH_LIMIT',
          'too many requests for this instance; retry later',
        );
      }
      const kwargs = new Map([
        ['project', asked['project-id']],
        ['instance', instance],
        ['image', asked['image-id'] ?? ''],
        ['name', asked.hostname ?? ''],
      ]);
      const call = { fun: vendordataRight, args: [], kwargs };
      const question = { subject, action: 'command', resource: { call } } as const;
      const { effect, rule } = host.decide(question, policy);
      if (effect !== 'allow') return {};
      const userData = await vendordata.answer(asked);
      if (userData === undefined) return {};
      const entry = {
        who: actorOf(subject),
        action: 'enroll.asked',
        what: vendordataRight,
        on: [instance],
        rule,
        outcome: 'permitted',
      } as const;
      // An instance that never uses its ticket can repeat the request without limit.
      bursts.note(entry, asked['project-id']);
      // cloud-init treats a JSON string as user-data.
      return reply.type('application/json; charset=utf-8').send(JSON.stringify(userData));
    },
  );
}
