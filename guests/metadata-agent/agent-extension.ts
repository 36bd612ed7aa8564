/**
 * Extension of the bridge for metadata agents, Nova's vendordata and enrolment by identity rules.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type BridgeExtensionModule,
  bridgeServices,
  type EnrolmentModule,
  sectionProblems,
} from '#heat-bridge';
import { AuditBursts, type ExtensionHost } from '#master';
import { relayedAddress } from '#minion-protocol';
import { tryParseJson } from '#runtime';
import { createCloudReader, parseCloudOptions } from '../cloud/cloud-options.ts';
import { parseGuestsSection, partsOfGuests } from '../guests-section.ts';
import { guestLimits } from '../limits.ts';
import { bytesOf, textOf } from '../request-body.ts';
import { readSecretFile } from '../secret-file.ts';
import { guestServices } from '../services.ts';
import {
  AgentCredentials,
  type AgentInstance,
  agentHeader,
  type IdentifiedInstance,
  unknownInstance,
} from './agent-credentials.ts';
import { parseAgents, parseIdentities, parseVendordata } from './agent-section.ts';
import { addIdentityRoute, IdentityEnrolment } from './identity.ts';
import { parseIdentityRules } from './identity-rules.ts';
import { InstanceEnrolments } from './instance-enrolments.ts';
import { addVendordataRoute, Vendordata } from './vendordata.ts';

/**
 * Opens the extension for metadata agents, vendordata and enrolment by identity rules.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
const openAgents: BridgeExtensionModule['open'] = async (host, { sections, names }) => {
  const { agents: given, identity, vendordata, peers } = parseGuestsSection(sections.guests, names);
  const files = parseAgents(given);
  const cloud = peers === undefined ? undefined : parseCloudOptions(peers, sections.keystone);
  const enrolment = host.use(bridgeServices.enrolment);
  const rules = parseIdentityRules(parseIdentities(identity), {
    agents: [...files.keys()],
    hasCloud: cloud !== undefined,
    hasEnroll: enrolment.isByTicket,
  });
  const vendordataOptions = vendordata === undefined ? undefined : parseVendordata(vendordata);
  const credentials = await openCredentials(files, host);
  const enrolments = new InstanceEnrolments({ state: host.shared, enroll: enrolment });
  const bursts = new AuditBursts({ audit: host.audit, now: host.now });
  const vendordataBursts = new AuditBursts({
    ...{ audit: host.audit, now: host.now },
    limits: {
      ofSource: guestLimits.vendordataRecords,
      all: guestLimits.allVendordataRecords,
    },
  });
  const identify = ({ method, url, body, headers }: FastifyRequest): IdentifiedInstance => {
    const request = { method, path: url, body: Buffer.concat(bytesOf(body)) };
    return credentials.identify(String(headers[agentHeader]), request);
  };
  host.provide(guestServices.agents, {
    isFromAgent: ({ headers }) => headers[agentHeader] !== undefined,
    guestOf: (request) => {
      const { instance, project } = identify(request);
      const own = [...enrolment.enrolments.liveOfInstance(instance)].find(
        (it) => it.project === project,
      );
      if (own?.state === 'accepted' || own?.state === 'signed-in') {
        return { minion: own.id, project, instance };
      }
      throw unknownInstance();
    },
  });
  return {
    addRoutes: (app, server) => {
      if (vendordataOptions !== undefined) {
        const log = host.logger.child({ component: 'vendordata' });
        const vendordataOf = new Vendordata(vendordataOptions, enrolments, log);
        addVendordataRoute(app, server, host, vendordataOf, vendordataBursts);
      }
      if (rules.length > 0 && cloud !== undefined) {
        const log = host.logger.child({ component: 'identity' });
        const reader = createCloudReader(cloud, host.closing);
        const deps = { rules, enrolments, cloud: reader, bursts, log };
        addIdentityRoute(app, identify, new IdentityEnrolment(deps));
      }
      addAgentClaimRoutes(app, identify, enrolment);
    },
    close: async () => {
      bursts.flush();
      vendordataBursts.flush();
    },
  };
};

/** Kind of the messages with which cluster members report used nonces to each other. */
const nonceMessage = 'agent-nonce';

/**
 * Reads the secrets of the agents.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
async function openCredentials(
  files: ReadonlyMap<string, string>,
  host: Pick<ExtensionHost, 'config' | 'now' | 'shared'>,
): Promise<AgentCredentials> {
  const secrets = new Map<string, string>();
  for (const [name, file] of files) {
    secrets.set(name, await readSecretFile(file, host, 'saltbridge:bridge:guests:agents'));
  }
  const { cluster } = host.shared;
  const announce = (nonce: string, { instance, project }: AgentInstance): void =>
    cluster?.send(nonceMessage, { nonce, instance, project });
  const credentials = new AgentCredentials(secrets, host.now, announce);
  cluster?.onMessage(nonceMessage, ({ nonce, instance, project }) => {
    if (typeof nonce === 'string' && typeof instance === 'string' && typeof project === 'string') {
      credentials.note(nonce, { instance, project });
    }
  });
  return credentials;
}

const checkAgents: BridgeExtensionModule['check'] = ({ sections, names, problems }) => {
  const { agents, identity, vendordata, peers } = partsOfGuests(sections.guests);
  const { enroll } = sections;
  const surroundings = {
    agents: typeof agents === 'object' && agents !== null ? Object.keys(agents) : [],
    hasCloud: peers !== undefined,
    hasEnroll:
      Object.hasOwn(Object(enroll), 'masters') ||
      // If the section `enroll` has errors, it is unknown whether it names masters.
      problems.some(({ key }) => key.startsWith('saltbridge:bridge:enroll')),
  };
  return [
    ...sectionProblems('bridge:guests', sections.guests, (it) => parseGuestsSection(it, names)),
    ...sectionProblems('bridge:guests:agents', agents, parseAgents),
    ...sectionProblems('bridge:guests:identity', identity, (it) =>
      parseIdentityRules(parseIdentities(it), surroundings),
    ),
    ...sectionProblems('bridge:guests:vendordata', vendordata, (it) => it && parseVendordata(it)),
  ];
};

export const agentExtension: BridgeExtensionModule = { check: checkAgents, open: openAgents };

/**
 * Adds the routes `POST guest/enroll/claim` and `POST guest/enroll/failure`. A ticket is accepted
 * only for the instance and the project that the agent identified.
 * @param identify - returns the instance of a request, or throws AuthenticationError
 * ERR_EAUTH_TOKEN
 */
export function addAgentClaimRoutes(
  app: FastifyInstance,
  identify: (request: FastifyRequest) => IdentifiedInstance,
  { machines, machineRoutes }: Pick<EnrolmentModule, 'machineRoutes' | 'machines'>,
): void {
  const { bodyLimit, claim, failure } = machineRoutes;
  const originOf = (request: FastifyRequest): Parameters<typeof machines.claim>[1] => {
    const { instance, project } = identify(request);
    // A relay identifies an instance by an address in this form, so that a ticket can be bound to
    // the address.
    const address = relayedAddress({ network: '', address: '', instance, project });
    return { address, identity: { instance, project } };
  };
  app.post('/guest/enroll/claim', { bodyLimit, schema: claim }, async (request) => {
    const from = originOf(request);
    return machines.claim(tryParseJson(textOf(request.body)), from);
  });
  app.post('/guest/enroll/failure', { bodyLimit, schema: failure }, async (request) => {
    const from = originOf(request);
    return machines.report(tryParseJson(textOf(request.body)), from);
  });
}
