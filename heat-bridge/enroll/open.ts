/** Enrolment of one master, from its parts. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { AuditBursts, type ExtensionHost, type KeyAdvice } from '../../master/index.ts';
import { makeDirectory } from '../../runtime/index.ts';
import { BridgeError } from '../errors.ts';
import type { BridgePart } from '../part.ts';
import type { EnrollApi, RetireListener } from './api.ts';
import { Claims } from './claims.ts';
import { createEnrollApi } from './create-api.ts';
import { Deadlines } from './deadlines.ts';
import { EnrolmentDesk } from './desk.ts';
import { EnrolmentBook } from './enrolment-book.ts';
import { KeyPairs } from './key-pairs.ts';
import { EnrolmentMoves } from './moves.ts';
import { newsTeller } from './news.ts';
import type { EnrollOptions } from './options.ts';
import { addEnrollRoutes } from './routes.ts';
import { enrollMethods } from './rpc.ts';
import { addServiceRoutes } from './service-routes.ts';
import { SpentTickets } from './spent-tickets.ts';
import { openTicketKey } from './ticket-key.ts';
import { UserDataWriter } from './user-data/writer.ts';

/** The part of the bridge that enrols. */
export interface EnrolmentPart extends BridgePart<EnrollApi> {
  /** What is known of keys that minions show. */
  readonly advice: KeyAdvice;
}

/**
 * Opens it: `<state_dir>/enroll/` holds the key that signs tickets, and the tickets that were used;
 * neither is in the store or its backups.
 * @throws BridgeError ERR_TICKET_KEY, StoreError
 */
export async function openEnrolment(
  host: ExtensionHost,
  options: EnrollOptions,
): Promise<EnrolmentPart> {
  const { admission, now, state, closing } = host;
  const log = host.logger.child({ part: 'enroll' });
  const directory = path.join(host.config.stateDir, 'enroll');
  await makeDirectory(directory, 0o700);
  const key = await openTicketKey(path.join(directory, 'ticket.key'));
  const spent = await SpentTickets.open(path.join(directory, 'spent'), now);
  const book = await EnrolmentBook.open(state, now);
  const bursts = new AuditBursts({ audit: host.audit, now });
  const tell = newsTeller(host, bursts, log);
  const listeners = new Set<RetireListener>();
  const onRetire = async (id: string): Promise<void> => {
    for (const listener of listeners) await listener(id);
  };
  const moves = new EnrolmentMoves({ book, spent, admission, onRetire, tell, now });
  const keyPairs = new KeyPairs({ bits: options.keyBits, prepared: options.preparedKeys });
  const { ticketLifetimeMs, protocol, isOn, takesGrains, maxOpen } = options;
  const defaults = { ticketLifetimeMs, protocol, isOn, takesGrains, maxOpen };
  const desk = new EnrolmentDesk({
    book,
    moves,
    admission,
    keyPairs,
    privateKey: key.privateKey,
    writer: () => openWriter(host, options),
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
  const claims = new Claims({ book, moves, admission, rules, takesGrains, tell });
  const deadlines = new Deadlines({ book, moves, bursts, now, log });
  const api = createEnrollApi({
    desk,
    book,
    moves,
    keyPairs,
    admission,
    listeners,
    defaultProtocol: protocol,
    tell,
    now,
    closing,
  });
  await moves.resume();
  const stopHearing = admission.onHeard((id) => {
    moves.heard(id).catch((error: unknown) => {
      log.error({ minion: id, err: error }, 'a sign-in was not kept');
    });
  });
  return {
    api,
    advice: claims.advise,
    onKeyLost: (id) => moves.keyLost(id),
    rpc: enrollMethods(api),
    routes: (app, doors) => {
      addEnrollRoutes(app, claims);
      addServiceRoutes(app, doors, host, api, protocol);
    },
    start: () => {
      deadlines.start();
      keyPairs.prepare().catch((error: unknown) => log.error({ err: error }, 'no keys were made'));
    },
    close: async () => {
      stopHearing();
      await deadlines.close();
      bursts.flush();
      await keyPairs.close();
      await spent.close();
    },
  };
}

/** Anew for each machine: the certificate is renewed now and then, and its pin with it. */
async function openWriter(
  { config, master }: ExtensionHost,
  { masters, url, certificate }: EnrollOptions,
): Promise<UserDataWriter> {
  if (masters.length === 0 || url === undefined || certificate === undefined) {
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
    url,
    certificate: await readCertificate(certificate),
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
