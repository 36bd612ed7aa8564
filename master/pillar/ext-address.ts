import { MasterError } from '../errors.ts';

/** An address with `{id}` in it, and what may be asked. */
export interface PillarAddress {
  readonly url: string;
  readonly hosts: readonly string[];
  readonly allowsPlainHttp?: boolean;
}

/** The address for some minion. @throws MasterError ERR_ARGS for one that may not be asked */
export function checkPillarAddress({ url, hosts, allowsPlainHttp = false }: PillarAddress): URL {
  const address = tryUrl(url.replaceAll('{id}', 'id'));
  // An id must not choose the host.
  if (address === undefined || address.host !== tryUrl(url.replaceAll('{id}', 'other'))?.host) {
    throw new MasterError('ERR_ARGS', 'url: expected an address with {id} behind the host');
  }
  if (address.protocol !== 'https:' && !(allowsPlainHttp && address.protocol === 'http:')) {
    throw new MasterError('ERR_ARGS', 'url: expected https (or http, where that is allowed)');
  }
  if (address.username !== '' || address.password !== '') {
    throw new MasterError('ERR_ARGS', 'url: user and password go into headers');
  }
  if (!hosts.includes(address.host)) {
    throw new MasterError('ERR_ARGS', 'url: its host is not among hosts');
  }
  return address;
}

function tryUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}
