/** User-data for the machines of one bridge. */
import { createHash, X509Certificate } from 'node:crypto';
import type { KeyPairText } from '../../../minion-protocol/index.ts';
import { BridgeError } from '../../errors.ts';
import type { EnrolRequest } from '../request.ts';
import { pkiDirOf, usualConfigDir } from './machine.ts';
import { type MasterAddress, minionConfig } from './minion-config.ts';
import { userData } from './user-data.ts';

/** Name of the grain that a ticket may travel in. */
export const ticketGrain = 'saltbridge_ticket';

/** What all machines are told alike. */
export interface BridgeAddress extends MasterAddress {
  /** Where the bridge's HTTP API is, as machines reach it: `https://…`, without `/bridge/v1`. */
  readonly url: string;
  /** The certificate that it shows, PEM; machines trust no other. */
  readonly certificate: string;
}

/** Seconds between attempts of a minion whose key is not accepted yet. */
const acceptanceWait = 2;

export class UserDataWriter {
  readonly #address: BridgeAddress;
  readonly #pins: { readonly publicKeyPin: string; readonly certificatePin: string };

  /** @throws BridgeError ERR_ENROLL_OFF for an address or a certificate that is none */
  constructor(address: BridgeAddress) {
    if (!URL.canParse(address.url) || new URL(address.url).protocol !== 'https:') {
      throw new BridgeError('ERR_ENROLL_OFF', 'enroll: url: expected https://…');
    }
    this.#address = address;
    this.#pins = pinsOf(address.certificate);
  }

  /** @param secrets of this one machine */
  write(
    request: EnrolRequest,
    { ticket, keys }: { readonly ticket: string; readonly keys: KeyPairText | undefined },
  ): string {
    const { id, by = 'claim', format = 'cloud-init', instance, beside } = request;
    if (format === 'none') return '';
    const { configDir = usualConfigDir } = request;
    const isGrain = by === 'grain';
    const options = {
      ...(by === 'keys' ? {} : { acceptance_wait_time: acceptanceWait }),
      ...(configDir === usualConfigDir ? {} : { pki_dir: pkiDirOf(configDir) }),
      ...request.config,
      ...(isGrain ? { autosign_grains: [ticketGrain] } : {}),
    };
    const plan = {
      configDir,
      config: minionConfig(id, this.#address, options),
      grains: { ...request.grains, ...(isGrain ? { [ticketGrain]: ticket } : {}) },
      claims: by === 'claim',
      ...(keys === undefined ? {} : { keys }),
      report: {
        url: `${this.#address.url.replace(/\/+$/, '')}/bridge/v1/enroll`,
        ...this.#pins,
        ticket,
        statesInstance: instance !== undefined,
      },
    };
    return userData(format, plan, beside);
  }
}

function pinsOf(pem: string): { publicKeyPin: string; certificatePin: string } {
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
