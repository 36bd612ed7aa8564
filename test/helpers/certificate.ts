/** Creates a self-signed certificate for this machine with openssl. */

import { spawnSync } from 'node:child_process';
import path from 'node:path';

export interface TestCertificate {
  readonly certificate: string;
  readonly key: string;
}

/** Creates the files of a certificate for `localhost`, or for an address, in a directory. */
export function makeCertificate(directory: string, address?: string): TestCertificate {
  const [certificate, key] = ['cert.pem', 'key.pem'].map((name) => path.join(directory, name));
  if (certificate === undefined || key === undefined) throw new Error('no names');
  const subject = address === undefined ? 'DNS:localhost' : `IP:${address}`;
  const words = [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
    ...['-days', '2', '-subj', '/CN=localhost', '-addext', `subjectAltName=${subject}`],
    ...['-keyout', key, '-out', certificate],
  ];
  const made = spawnSync('/usr/bin/openssl', words);
  if (made.status !== 0) throw new Error(`openssl: ${made.stderr}`);
  return { certificate, key };
}
