/** Opens enrolment from its parts, and reads its options. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import Type from 'typebox';
import type { MasterConfig } from '#config';
import { AuditBursts, type ExtensionHost } from '#master';
import { makeDirectory } from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { BridgeError } from '../errors.ts';
import { familyOf } from '../figures.ts';
import { parseSection } from '../options.ts';
import { SharedNames } from '../shared-names.ts';
import type { Enrolment, EnrolRequest, NewEnrolment } from './enrolment.ts';
import { EnrolmentDeadlines } from './enrolment-deadlines.ts';
import { createEnrolmentEmitter } from './enrolment-reports.ts';
import { EnrolmentRepository, type KnownEnrolments } from './enrolment-repository.ts';
import { addMachineRoutes, addServiceRoutes, machineRoutes } from './enrolment-routes.ts';
import { enrollMethods } from './enrolment-rpc.ts';
import {
  createEnrollApi,
  type EnrollApi,
  EnrolmentService,
  KeyPairs,
  type RetireListener,
} from './enrolment-service.ts';
import { EnrolmentTransitions } from './enrolment-transitions.ts';
import { MachineRequests } from './machine-requests.ts';
import { TicketClaimHandler } from './ticket-claims.ts';
import { openTicketKey, ticketKeyOf } from './ticket-key.ts';
import { UsedTickets } from './used-tickets.ts';
import { UserDataWriter } from './user-data.ts';

/** Enrolment, for other extensions of the bridge. */
export interface EnrolmentModule {
  readonly api: EnrollApi;
  readonly enrolments: KnownEnrolments;
  /** The project of the enrolment by which a minion's key is accepted. */
  readonly projectOf: (minion: string) => string | undefined;
  /** An open enrolment by a claim again: the same ticket. @throws BridgeError ERR_ENROLL_OFF */
  reissue(enrolment: Enrolment, request: EnrolRequest): Promise<NewEnrolment>;
  /** Claims and reports of machines, whichever way they come. */
  readonly machines: MachineRequests;
  /** Descriptions of the routes by which {@link machines} are served. */
  readonly machineRoutes: typeof machineRoutes;
  /** Machines are given a token with the answer to their claim. */
  giveTokens(tokenOf: (enrolment: Enrolment) => string | undefined): void;
  /** Whether machines can be enrolled by a ticket. */
  readonly isByTicket: boolean;
  readonly contribution: BridgeContribution;
}

/**
 * Opens it: `<state_dir>/enroll/` holds the key that signs tickets, and the tickets that were used;
 * neither is in the store or its backups. Members of a cluster derive the key from their secret.
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
  const book = await EnrolmentRepository.open(shared, now);
  const names = await SharedNames.open(shared, 'enrolment-names');
  const bursts = new AuditBursts({ audit: host.audit, now });
  const tell = createEnrolmentEmitter(host, bursts, log);
  const listeners = new Set<RetireListener>();
  const onRetire = async (id: string): Promise<void> => {
    for (const listener of listeners) await listener(id);
  };
  const moves = new EnrolmentTransitions({ book, spent, admission, onRetire, tell, now });
  const keyPairs = new KeyPairs({ bits: options.keyBits, prepared: options.preparedKeys });
  const { ticketLifetimeMs, protocol, isOn, takesGrains, maxOpen } = options;
  const defaults = { ticketLifetimeMs, protocol, isOn, takesGrains, maxOpen };
  let isServed = false;
  let tokenOf: (enrolment: Enrolment) => string | undefined = () => undefined;
  const desk = new EnrolmentService({
    book,
    moves,
    admission,
    keyPairs,
    names,
    privateKey: key.privateKey,
    writer: () => createUserDataWriter(host, options),
    isServed: () => isServed,
    defaults,
    tell,
    now,
  });
  const rules = {
    publicKey: key.publicKey,
    find: (number: string) => book.get(number),
    isSpent: (number: string) => spent.has(number),
    now,
  };
  const claims = new TicketClaimHandler({ book, moves, admission, rules, takesGrains, tell });
  const machines = new MachineRequests(claims, (enrolment) => tokenOf(enrolment));
  const isActive = (): boolean => cluster?.isHeld !== false;
  const deadlines = new EnrolmentDeadlines({ book, moves, bursts, isActive, now, log });
  const api = createEnrollApi({
    desk,
    book,
    moves,
    keyPairs,
    admission,
    names,
    listeners,
    defaultProtocol: protocol,
    tell,
    now,
    closing,
  });
  if (cluster === undefined) await moves.resume();
  else await moves.resumeTickets();
  book.onFollowed = (enrolment) => {
    moves.followed(enrolment).catch((error: unknown) => {
      log.error({ err: error }, 'a ticket that was used at another member was not remembered');
    });
  };
  const stopHearing = admission.onHeard((id) => {
    moves.heard(id).catch((error: unknown) => {
      log.error({ minion: id, err: error }, 'a sign-in was not kept');
    });
  });
  return {
    api,
    enrolments: book,
    machines,
    machineRoutes,
    isByTicket: options.masters.length > 0,
    projectOf: (minion) => {
      const enrolment = book.liveOf(minion);
      return enrolment === undefined || enrolment.state === 'open' ? undefined : enrolment.project;
    },
    reissue: (enrolment, request) => desk.reissue(enrolment, request),
    giveTokens: (given) => {
      tokenOf = given;
    },
    contribution: {
      advice: claims.advise,
      onKeyLost: (id) => moves.keyLost(id),
      rpc: enrollMethods(api),
      metrics: () => [
        familyOf(
          {
            type: 'gauge',
            name: 'enrolments',
            help: 'Enrolments that are kept, by state.',
            label: 'state',
          },
          book.counts(),
        ),
      ],
      addRoutes: (app, doors) => {
        isServed = true;
        addMachineRoutes(app, machines);
        addServiceRoutes(app, doors, host, api, protocol);
      },
      start: () => {
        deadlines.start();
        cluster?.onHeld(() => {
          moves.takeOver().catch((error: unknown) => {
            log.error({ err: error }, 'what another member left undone of enrolments is not done');
          });
        });
        keyPairs
          .prepare()
          .catch((error: unknown) => log.error({ err: error }, 'no keys were made'));
      },
      close: async () => {
        stopHearing();
        await deadlines.close();
        bursts.flush();
        await keyPairs.close();
        await spent.close();
      },
    },
  };
}

/** Anew for each machine: the certificate is renewed now and then, and its pin with it. */
async function createUserDataWriter(
  { config, master }: ExtensionHost,
  { masters, url, certificate }: EnrollOptions,
): Promise<UserDataWriter> {
  if (masters.length === 0) {
    throw new BridgeError('ERR_ENROLL_OFF', 'expected masters, url and certificate under enroll');
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
    throw new BridgeError('ERR_ENROLL_OFF', `enroll: certificate: ${file} cannot be read`, {
      cause,
    });
  }
}

// `saltbridge: bridge: enroll:`.

const EnrollSection = Type.Object(
  {
    /** Addresses of the masters as machines reach them; without them nothing is enrolled by ticket. */
    masters: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
    /** Where machines reach the HTTP API: `https://…`. */
    url: Type.Optional(Type.String({ minLength: 1 })),
    /** File with the certificate that the API shows, PEM. Default: the API's `ssl_crt`. */
    certificate: Type.Optional(Type.String({ minLength: 1 })),
    /** Seconds that a ticket is good for. Default 1800. */
    ticket_lifetime: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
    /** Lowest protocol version that enrolled minions are heard in. Default 3. */
    protocol: Type.Optional(Type.Integer({ minimum: 0, maximum: 3 })),
    /** Take tickets as grains, which travel in clear text. Default false. */
    grain: Type.Optional(Type.Boolean()),
    /** Enrolments that may wait for their machine. Default 10000. */
    max_open: Type.Optional(Type.Integer({ minimum: 1 })),
    /** Bits of key pairs for machines. Default 2048. */
    key_bits: Type.Optional(Type.Integer({ minimum: 2048, maximum: 8192 })),
    /** Key pairs that are made before they are asked for. Default 0. */
    prepared_keys: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
  },
  { additionalProperties: false },
);

/** How enrolment works; everything has a value but what switches it on. */
export interface EnrollOptions {
  /** Whether there is such a section. */
  readonly isOn: boolean;
  readonly masters: readonly string[];
  readonly url: string | undefined;
  /** Path. */
  readonly certificate: string | undefined;
  readonly ticketLifetimeMs: number;
  readonly protocol: 0 | 1 | 2 | 3;
  readonly takesGrains: boolean;
  readonly maxOpen: number;
  readonly keyBits: number;
  readonly preparedKeys: number;
}

const protocols = [0, 1, 2, 3] as const;

/**
 * The options of a section.
 * @param value as it is written; `undefined`: it is not there
 * @param config the master's, for the certificate that its HTTP API shows
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseEnrollOptions(
  value: unknown,
  config: Pick<MasterConfig, 'api' | 'restCherrypy'>,
): EnrollOptions {
  const given = parseSection('bridge:enroll', EnrollSection, value ?? {});
  return {
    isOn: value !== undefined,
    masters: given.masters ?? [],
    url: given.url,
    certificate: given.certificate ?? (config.api ?? config.restCherrypy)?.sslCrt,
    ticketLifetimeMs: (given.ticket_lifetime ?? 1800) * 1000,
    protocol: protocols[given.protocol ?? 3] ?? 3,
    takesGrains: given.grain ?? false,
    maxOpen: given.max_open ?? 10_000,
    keyBits: given.key_bits ?? 2048,
    preparedKeys: given.prepared_keys ?? 0,
  };
}
