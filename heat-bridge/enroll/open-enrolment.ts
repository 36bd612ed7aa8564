/** Opens the enrolment module: parses its options, and creates its objects. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { AuditBursts, type ExtensionHost, masterServices } from '#master';
import { makeDirectory } from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { BridgeError } from '../errors.ts';
import { familyOf } from '../figures.ts';
import { bridgeLimits } from '../limits.ts';
import { SharedNames } from '../shared-names.ts';
import type { Enrolment, EnrolRequest, NewEnrolment } from './enrolment.ts';
import { EnrolmentDeadlines } from './enrolment-deadlines.ts';
import type { EnrollOptions } from './enrolment-options.ts';
import { createEnrolmentEmitter } from './enrolment-reports.ts';
import { EnrolmentRepository, type KnownEnrolments } from './enrolment-repository.ts';
import { addServiceRoutes } from './enrolment-routes.ts';
import { enrollMethods } from './enrolment-rpc.ts';
import { type EnrollApi, EnrolmentService, type RetireListener } from './enrolment-service.ts';
import { EnrolmentTransitions, type TransitionParts } from './enrolment-transitions.ts';
import { KeyPairs } from './key-pairs.ts';
import { addMachineRoutes, MachineRequests, machineRoutes } from './machine-requests.ts';
import { TicketClaimHandler } from './ticket-claims.ts';
import { openTicketKey, ticketKeyOf } from './tickets.ts';
import { UsedTickets } from './used-tickets.ts';
import { UserDataWriter } from './user-data.ts';

type ReleaseListener = TransitionParts['onRelease'];

/** Interface of enrolment for other extensions of the bridge. */
export interface EnrolmentModule {
  readonly api: EnrollApi;
  readonly enrolments: KnownEnrolments;
  /**
   * Default lifetime of a ticket, in milliseconds: the option `ticket_lifetime`. A request for a
   * ticket may state another lifetime.
   */
  readonly ticketLifetimeMs: number;
  /** Returns the project of a minion: the project of the enrolment that accepted its key. */
  readonly projectOf: (minion: string) => string | undefined;
  /**
   * Returns the project for which an id is currently enrolled, even if no machine has used the
   * ticket yet.
   */
  readonly expectedProjectOf: (id: string) => string | undefined;
  /**
   * Creates new user-data for an open enrolment of the method `claim`. Its ticket stays the same.
   * @throws BridgeError ERR_ENROLL_OFF
   */
  reissue(enrolment: Enrolment, request: EnrolRequest): Promise<NewEnrolment>;
  /**
   * Handler of claims and reports of failure, which machines send directly or through a metadata
   * agent.
   */
  readonly machines: MachineRequests;
  /** Schemas of the routes that serve {@link machines}. */
  readonly machineRoutes: typeof machineRoutes;
  /**
   * Sets the function that returns the token of an enrolled machine. The response to a claim
   * contains this token.
   */
  giveTokens(tokenOf: (enrolment: Enrolment) => string | undefined): void;
  /**
   * Registers a listener for tickets that end without being used. The listener receives the minion
   * id and the owner name of the ticket's project. It must remove everything that this owner
   * registered for the id, because another project may enrol the id next.
   */
  onRelease(listener: ReleaseListener): void;
  /** Whether machines can be enrolled by ticket. */
  readonly isByTicket: boolean;
  readonly contribution: BridgeContribution;
}

/**
 * Opens the enrolment module. `<state_dir>/enroll/` contains the key that signs tickets, and the
 * list of used tickets. Neither is in the store or its backups. In a cluster, all members derive
 * the key from their shared secret.
 * @throws BridgeError ERR_TICKET_KEY, StoreError
 */
export async function openEnrolment(
  host: ExtensionHost,
  options: EnrollOptions,
): Promise<EnrolmentModule> {
  const { admission, now, shared, closing } = host;
  const log = host.logger.child({ part: 'enroll' });
  const directory = path.join(host.config.stateDir, 'enroll');
  await makeDirectory(directory, 0o700);
  const { cluster } = shared;
  const key =
    cluster === undefined
      ? await openTicketKey(path.join(directory, 'ticket.key'))
      : ticketKeyOf(cluster.derive('tickets'));
  const spent = await UsedTickets.open(path.join(directory, 'spent'), now);
  const repository = await EnrolmentRepository.open(shared, now);
  const names = await SharedNames.open(shared, 'enrolment-names');
  const bursts = new AuditBursts({ audit: host.audit, now });
  const asked = new AuditBursts({
    ...{ audit: host.audit, now },
    limits: { ofSource: bridgeLimits.askedEnrolments, all: bridgeLimits.allAskedEnrolments },
  });
  const tell = createEnrolmentEmitter(host, bursts, log);
  const listeners = new Set<RetireListener>();
  const onRetire = async (id: string): Promise<void> => {
    for (const listener of listeners) await listener(id);
  };
  const releases = new Set<ReleaseListener>();
  const onRelease: ReleaseListener = async (id, owner) => {
    for (const listener of releases) await listener(id, owner);
  };
  const base = { repository, admission, tell, now, names, options };
  const transitions = new EnrolmentTransitions({ ...base, spent, onRetire, onRelease });
  const parts = { ...base, transitions };
  const { generator } = host.use(masterServices.auth);
  const keyPairs = new KeyPairs(
    { bits: options.keyBits, prepared: options.preparedKeys },
    (bits, owner) => generator.generate(owner, bits),
  );
  let isServed = false;
  let tokenOf: (enrolment: Enrolment) => string | undefined = () => undefined;
  const api = new EnrolmentService({
    ...parts,
    keyPairs,
    privateKey: key.privateKey,
    writer: () => createUserDataWriter(host, options),
    isServed: () => isServed,
    listeners,
    closing,
  });
  const rules = {
    publicKey: key.publicKey,
    find: (number: string) => repository.get(number),
    isSpent: (number: string) => spent.has(number),
    now,
  };
  const claims = new TicketClaimHandler({ ...parts, rules });
  const machines = new MachineRequests(claims, (enrolment) => tokenOf(enrolment));
  const isActive = (): boolean => cluster?.isHeld !== false;
  const deadlines = new EnrolmentDeadlines({ ...parts, bursts, isActive, log });
  if (cluster === undefined) await transitions.resume();
  else await transitions.resumeTickets();
  repository.onFollowed = (enrolment) => {
    transitions.followed(enrolment).catch((error: unknown) => {
      log.error(
        { err: error },
        'another cluster member accepted a ticket, but this member could not mark the ticket as used',
      );
    });
  };
  const stopHearing = admission.onHeard((id) => {
    transitions.heard(id).catch((error: unknown) => {
      log.error(
        { minion: id, err: error },
        'a minion signed in, but its enrolment could not be updated',
      );
    });
  });
  return {
    api,
    enrolments: repository,
    ticketLifetimeMs: options.ticketLifetimeMs,
    machines,
    machineRoutes,
    isByTicket: options.masters.length > 0,
    projectOf: (minion) => {
      const enrolment = repository.liveOf(minion);
      return enrolment === undefined || enrolment.state === 'open' ? undefined : enrolment.project;
    },
    expectedProjectOf: (id) => repository.liveOf(id)?.project,
    reissue: (enrolment, request) => api.reissue(enrolment, request),
    onRelease: (listener) => void releases.add(listener),
    giveTokens: (given) => {
      tokenOf = given;
    },
    contribution: {
      advice: claims.advise,
      onKeyLost: (id) => transitions.keyLost(id),
      rpc: enrollMethods(api),
      metrics: () => [
        familyOf(
          {
            type: 'gauge',
            name: 'enrolments',
            help: 'Enrolments: open, accepted, signed-in, failed, retired.',
            label: 'state',
          },
          repository.counts(),
        ),
      ],
      addRoutes: (app, doors) => {
        isServed = true;
        addMachineRoutes(app, machines);
        addServiceRoutes(app, doors, { ...host, asked }, api, options.protocol);
      },
      start: () => {
        deadlines.start();
        cluster?.onHeld(() => {
          transitions.takeOver().catch((error: unknown) => {
            log.error(
              { err: error },
              'cannot complete enrolment changes that another cluster member began before it failed',
            );
          });
        });
        keyPairs
          .prepare()
          .catch((error: unknown) =>
            log.error({ err: error }, 'could not generate spare key pairs for enrolments'),
          );
      },
      close: async () => {
        stopHearing();
        await deadlines.close();
        bursts.flush();
        asked.flush();
        await keyPairs.close();
        await spent.close();
      },
    },
  };
}

/**
 * Creates a new writer of user-data for each machine, because the certificate of the API can be
 * renewed at any time.
 */
async function createUserDataWriter(
  { config, master }: ExtensionHost,
  { masters, url, certificate }: EnrollOptions,
): Promise<UserDataWriter> {
  if (masters.length === 0) {
    throw new BridgeError(
      'ERR_ENROLL_OFF',
      '`enroll: masters` is missing, so no user-data can be created; set `masters`, `url` and `certificate`',
    );
  }
  const [own] = await master().keys.local();
  const [first] = (await master().status()).transports;
  return new UserDataWriter({
    masters,
    requestPort: first?.requestPort ?? config.retPort,
    transport: first?.transport ?? 'zeromq',
    fingerprint: own?.fingerprint ?? '',
    hashType: config.hashType,
    server:
      url === undefined || certificate === undefined
        ? undefined
        : { url, certificate: await readCertificate(certificate) },
  });
}

async function readCertificate(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new BridgeError('ERR_ENROLL_OFF', `enroll: certificate: cannot read ${file}`, {
      cause,
    });
  }
}
