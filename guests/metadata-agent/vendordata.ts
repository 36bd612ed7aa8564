/**
 * Nova's dynamic vendordata: Nova asks for it when an instance reads its metadata, and the answer
 * enrols the instance. Nova asks again at each reading, so the answer is the same until the ticket
 * in it is used, and empty from then on.
 */

import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import Type, { type Static } from 'typebox';
import { mayCallCommand } from '#acl';
import { describeRoute, parseForm } from '#heat-bridge';
import {
  AuthenticationError,
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  type HttpServerContext,
} from '#master';
import { compileSchema, TokenBuckets } from '#runtime';
import type { parseVendordata } from './agent-section.ts';
import type { InstanceEnrolments, InstanceRequest } from './instance-enrolments.ts';

type VendordataOptions = ReturnType<typeof parseVendordata>;

const Id = Type.String({ pattern: '^[A-Za-z0-9-]{1,64}$' });
const Text = Type.Union([Type.String({ maxLength: 255 }), Type.Null()]);
/**
 * Request of Nova [nova/api/metadata/vendordata_dynamic.py]. More keys may come with other releases.
 * What a project's users can change is not looked at.
 */
const RequestSchema = Type.Object({
  'project-id': Id,
  'instance-id': Id,
  'image-id': Type.Optional(Text),
  hostname: Type.Optional(Text),
});
const requestCheck = compileSchema(RequestSchema);

type VendordataRequest = Static<typeof RequestSchema>;

/** What a rule of the action `command` calls the right to be answered. */
const vendordataRight = 'bridge.vendordata';
/** Requests for one instance: a config drive makes six, and a guest may repeat its own at will. */
export const instanceRate = { perSecond: 0.5, burst: 20 };
/** User-data is in the body, 64 KiB of base64. */
const bodyLimit = 262_144;

/** Answers for instances. */
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

  /** User-data with a ticket; `undefined`: the instance has used one, or can have none. */
  async answer(asked: VendordataRequest): Promise<string | undefined> {
    const answer = await this.#enrolments.userDataFor(this.#requestFor(asked));
    if ('userData' in answer) return answer.userData;
    const { code, refusal: reason } = answer;
    const instance = asked['instance-id'];
    if (code !== undefined) this.#log.warn({ code, reason, instance }, 'no vendordata');
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

/** The id of an instance's minion, of a form with `{uuid}`, `{name}` and `{project}`. */
export function minionIdOf(
  form: string,
  { uuid, name, project }: Readonly<Record<'name' | 'project' | 'uuid', string>>,
): string {
  const values = new Map(Object.entries({ uuid, name, project }));
  return form.replaceAll(/\{(uuid|name|project)\}/g, (_, key: string) => values.get(key) ?? '');
}

const operation = describeRoute({
  summary: "Nova's dynamic vendordata: user-data that enrols the instance, or {}",
  body: RequestSchema,
  answer: Type.Union([Type.String(), Type.Object({})]),
});

/**
 * `POST vendordata`. The token is that of a service; a rule must permit it `command` of
 * `bridge.vendordata` with the keywords `project`, `instance`, `image` and `name` of the instance.
 * Instances that no rule means get `{}`.
 */
export function addVendordataRoute(
  app: FastifyInstance,
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'audit' | 'decide' | 'holdToken'>,
  vendordata: Vendordata,
): void {
  const rates = new TokenBuckets(instanceRate);
  app.post(
    '/vendordata',
    { bodyLimit, schema: operation },
    async (request, reply): Promise<object> => {
      const asked = parseForm(requestCheck, request.body, 'ERR_ENROLL_ARGS');
      const { subject, policy, stop } = await host.holdToken(doors.tokenOf(request) ?? '');
      stop();
      if (!mayCallCommand(subject, vendordataRight, policy)) {
        throw new AuthorizationError(`no rule permits ${vendordataRight}`);
      }
      const instance = asked['instance-id'];
      if (rates.take(instance) > 0) {
        throw new AuthenticationError('ERR_EAUTH_LIMIT', 'too many requests for this instance');
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
      host.audit.append({
        who: actorOf(subject),
        action: 'enroll.asked',
        what: vendordataRight,
        on: [instance],
        rule,
        outcome: 'permitted',
      });
      // A text of JSON: cloud-init reads it as user-data.
      return reply.type('application/json; charset=utf-8').send(JSON.stringify(userData));
    },
  );
}
