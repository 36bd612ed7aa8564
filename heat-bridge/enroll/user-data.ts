/** The user-data of a machine that enrols. */

import { createHash, X509Certificate } from 'node:crypto';
import type { KeyPairText } from '#minion-protocol';
import { BridgeError } from '../errors.ts';
import { renderUserData } from './enrol-script.ts';
import type { EnrolRequest } from './enrolment.ts';
import { requireMergeable } from './existing-user-data.ts';
import {
  buildMinionConfig,
  type ClaimServer,
  defaultConfigDir,
  type MasterAddress,
  pkiDirOf,
} from './user-data-parts.ts';

/** Name of the grain that a ticket may travel in. */
export const ticketGrain = 'saltbridge_ticket';

/** What all machines are told alike. */
export interface BridgeAddress extends MasterAddress {
  /** Absent: machines reach it by metadata agents alone. */
  readonly server:
    | {
        /** Where the HTTP API is, as machines reach it: `https://…`, without `/bridge/v1`. */
        readonly url: string;
        /** The certificate that it shows, PEM; machines trust no other. */
        readonly certificate: string;
      }
    | undefined;
}

/** Seconds between attempts of a minion whose key is not accepted yet. */
const acceptanceWaitSeconds = 2;

export class UserDataWriter {
  readonly #address: BridgeAddress;
  readonly #server: ClaimServer | undefined;

  /** @throws BridgeError ERR_ENROLL_OFF for an address or a certificate that is none */
  constructor(address: BridgeAddress) {
    const { server } = address;
    this.#address = address;
    if (server === undefined) return;
    if (!URL.canParse(server.url) || new URL(server.url).protocol !== 'https:') {
      throw new BridgeError('ERR_ENROLL_OFF', 'enroll: url: expected https://…');
    }
    this.#server = {
      url: `${server.url.replace(/\/+$/, '')}/bridge/v1/enroll`,
      ...certificatePins(server.certificate),
    };
  }

  /** @param secrets of this one machine @throws BridgeError ERR_ENROLL_OFF, ERR_ENROLL_ARGS */
  write(
    request: EnrolRequest,
    { ticket, keys }: { readonly ticket: string; readonly keys: KeyPairText | undefined },
  ): string {
    const { id, by = 'claim', format = 'cloud-init', instance, beside } = request;
    if (beside !== undefined) requireMergeable(beside, format);
    if (format === 'none') return '';
    const { configDir = defaultConfigDir, agent = false, masters } = request;
    if (!agent && this.#server === undefined) {
      const text = 'expected url and certificate under enroll, for a machine without an agent';
      throw new BridgeError('ERR_ENROLL_OFF', text);
    }
    const isGrain = by === 'grain';
    const options = {
      ...(by === 'keys' ? {} : { acceptance_wait_time: acceptanceWaitSeconds }),
      ...(configDir === defaultConfigDir ? {} : { pki_dir: pkiDirOf(configDir) }),
      ...request.config,
      ...(isGrain ? { autosign_grains: [ticketGrain] } : {}),
    };
    const plan = {
      configDir,
      config: buildMinionConfig(
        id,
        masters ? { ...this.#address, masters } : this.#address,
        options,
      ),
      grains: { ...request.grains, ...(isGrain ? { [ticketGrain]: ticket } : {}) },
      claims: by === 'claim',
      ...(keys === undefined ? {} : { keys }),
      report: {
        bridge: agent ? undefined : this.#server,
        ticket,
        statesInstance: instance !== undefined,
      },
    };
    return renderUserData(format, plan, beside);
  }
}

function certificatePins(pem: string): { publicKeyPin: string; certificatePin: string } {
  try {
    const certificate = new X509Certificate(pem);
    const key = certificate.publicKey.export({ type: 'spki', format: 'der' });
    return {
      publicKeyPin: createHash('sha256').update(key).digest('base64'),
      certificatePin: certificate.fingerprint256.replaceAll(':', ''),
    };
  } catch (cause) {
    throw new BridgeError('ERR_ENROLL_OFF', 'enroll: certificate: expected a certificate in PEM', {
      cause,
    });
  }
}
