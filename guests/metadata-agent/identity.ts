/**
 * Enrolment by identity: no enrolment is created in advance. A metadata agent identifies
 * an instance. If the instance matches a configured rule, it receives user-data that enrols it.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import Type from 'typebox';
import { describeRoute } from '#heat-bridge';
import { type AuditBursts, AuthenticationError } from '#master';
import { Budget, FairSlots, KeyedMutex, TokenBuckets } from '#runtime';
import type { CloudReader } from '../cloud/cloud-reader.ts';
import { guestLimits } from '../limits.ts';
import { type IdentifiedInstance, unknownInstance } from './agent-credentials.ts';
import { type IdentityRule, matchesRule } from './identity-rules.ts';
import type { InstanceEnrolments } from './instance-enrolments.ts';
import { minionIdOf } from './vendordata.ts';

export interface IdentityEnrolmentDeps {
  readonly rules: readonly IdentityRule[];
  readonly enrolments: Pick<InstanceEnrolments, 'isOver' | 'userDataFor'>;
  readonly cloud: Pick<CloudReader, 'ports' | 'server'>;
  /** Combines repeated audit records. */
  readonly bursts: Pick<AuditBursts, 'note'>;
  readonly log: Pick<Logger, 'warn'>;
  /** Returns the milliseconds of a monotonic clock. Default: `performance.now`. */
  readonly monotonic?: () => number;
}

/** Facts about an instance from the cloud. */
interface CloudFacts {
  readonly name: string;
  readonly image: readonly string[];
  readonly network: readonly string[];
  readonly zone: readonly string[];
}

/**
 * Reason why an instance gets no user-data. Only the operator sees the reason. The error for the
 * instance does not depend on it.
 */
class IdentityRefusal extends Error {}

/** Returns user-data to instances that match a rule. */
export class IdentityEnrolment {
  readonly #deps: IdentityEnrolmentDeps;
  readonly #rates: TokenBuckets;
  readonly #requests = new Budget(guestLimits.identityRequests);
  readonly #byInstance = new KeyedMutex();
  readonly #lookUps = new FairSlots(guestLimits.identityLookUps);

  constructor(deps: IdentityEnrolmentDeps) {
    this.#deps = deps;
    this.#rates = new TokenBuckets(guestLimits.identityRate, deps.monotonic);
  }

  /**
   * Returns user-data that enrols the instance.
   * @throws BridgeError ERR_ENROLL_UNKNOWN if the instance gets none, with a message that does not
   * depend on the reason; AuthenticationError ERR_EAUTH_LIMIT
   */
  async userDataFor(asking: IdentifiedInstance): Promise<string> {
    const { instance, project } = asking;
    if (!this.#rates.tryTake(instance)) throw tooMany('this instance');
    if (!this.#requests.tryTake(project)) throw tooMany('the instances of this project');
    try {
      // Handle the requests of an instance one at a time, so that one instance cannot use all
      // lookups.
      const { rule, userData } = await this.#byInstance.run(instance, () => this.#enrol(asking));
      this.#note(asking, 'permitted', { rule: rule.name });
      return userData;
    } catch (error) {
      if (!(error instanceof IdentityRefusal)) throw error;
      this.#note(asking, 'denied', { detail: error.message });
      throw unknownInstance();
    } finally {
      this.#requests.release(project);
    }
  }

  async #enrol(
    asking: IdentifiedInstance,
  ): Promise<{ readonly rule: IdentityRule; readonly userData: string }> {
    const { rules, enrolments } = this.#deps;
    const { instance, project, agent } = asking;
    const known = { project: [project], agent: [agent] };
    const candidates = rules.filter((it) => matchesRule(it, known));
    if (candidates.length === 0) throw new IdentityRefusal('no identity rule matches the instance');
    // Check this before the cloud is queried, because instances repeat the request at each boot.
    if (await enrolments.isOver(asking))
      throw new IdentityRefusal('the instance has already used its enrolment');
    const facts = await this.#lookUp(asking);
    const rule = candidates.find((it) => matchesRule(it, { ...known, ...facts }));
    if (rule === undefined) throw new IdentityRefusal('no identity rule matches the instance');
    const { ticketLifetime, masters } = rule;
    const answer = await enrolments.userDataFor({
      id: minionIdOf(rule.id, { uuid: instance, name: facts.name, project }),
      instance,
      project,
      // Only a metadata agent can send this request. Therefore the instance can also claim its
      // ticket through the agent.
      agent: true,
      ...(masters === undefined ? {} : { masters }),
      ...(ticketLifetime === undefined ? {} : { lifetimeSeconds: ticketLifetime }),
    });
    if ('userData' in answer) return { rule, userData: answer.userData };
    throw new IdentityRefusal(answer.refusal);
  }

  async #lookUp({ instance, project }: IdentifiedInstance): Promise<CloudFacts> {
    const { cloud, log } = this.#deps;
    try {
      return await this.#lookUps.run(project, () => readFacts(cloud, { instance, project }));
    } catch (error) {
      if (error instanceof IdentityRefusal) throw error;
      const reason = error instanceof Error ? error.message : 'unknown';
      log.warn({ instance, reason }, 'could not read an instance from Nova and Neutron');
      throw new IdentityRefusal('Nova, Neutron or Keystone did not respond');
    }
  }

  #note(
    { instance, project, agent }: IdentifiedInstance,
    outcome: 'denied' | 'permitted',
    more: { readonly detail: string } | { readonly rule: string },
  ): void {
    const entry = {
      who: { kind: 'service', name: agent },
      action: 'enroll.asked',
      what: 'bridge.identity',
      on: [instance],
      outcome,
      ...more,
    } as const;
    this.#deps.bursts.note(entry, project);
  }
}

/**
 * Reads the facts about an instance.
 * @throws IdentityRefusal, CloudError
 */
async function readFacts(
  cloud: Pick<CloudReader, 'ports' | 'server'>,
  { instance, project }: Pick<IdentifiedInstance, 'instance' | 'project'>,
): Promise<CloudFacts> {
  const server = await cloud.server(instance);
  if (server === undefined || server.isDeleted)
    throw new IdentityRefusal('the instance does not exist in Nova');
  if (server.project !== project)
    throw new IdentityRefusal('according to Nova, the instance belongs to another project');
  // Tenants can set the id of another tenant's instance on their own port.
  const ports = (await cloud.ports([instance])).filter(
    (it) => it.device === instance && it.project === project,
  );
  const { hostname = '', image, zone } = server;
  return {
    name: hostname,
    image: image === undefined ? [] : [image],
    network: ports.map(({ network }) => network),
    zone: zone === undefined ? [] : [zone],
  };
}

function tooMany(owner: string): AuthenticationError {
  return new AuthenticationError('ERR_EAUTH_LIMIT', `too many requests for ${owner}; retry later`);
}

const operation = describeRoute({
  summary: 'Returns user-data that enrols the instance, if a rule matches; for metadata agents',
  answer: Type.String(),
  answerTypes: ['text/plain'],
});

/**
 * Adds the route `GET guest/user-data`, through which an instance gets user-data that enrols it.
 * @param identify - returns the instance of a request, or throws AuthenticationError
 * ERR_EAUTH_TOKEN
 */
export function addIdentityRoute(
  app: FastifyInstance,
  identify: (request: FastifyRequest) => IdentifiedInstance,
  identity: IdentityEnrolment,
): void {
  app.get('/guest/user-data', { schema: operation }, async (request, reply) => {
    const userData = await identity.userDataFor(identify(request));
    return reply.type('text/plain; charset=utf-8').send(userData);
  });
}
