/** Checks the cluster of a master and the NATS servers of its log. */

import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect, isIP } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { configLimits } from '#config';
import { codeOf, readRegularFile } from '#runtime';
import { type DiagnosticsInput, type DoctorFinding, formatList } from './report.ts';

/**
 * Maximum clock difference between members, in milliseconds. A larger difference makes rows expire
 * early or late, because each row expires by the clock of one member.
 */
const largestSkewMs = 5000;

/** Checks the cluster by querying the running master. */
export async function checkCluster({ running }: DiagnosticsInput): Promise<DoctorFinding[]> {
  const cluster = running?.status.cluster;
  if (cluster === undefined) return [];
  const { members, isStale, refusesWrites, failingMs, warnings } = cluster;
  const away = members.filter((it) => !it.isAlive).map(({ name }) => name);
  const skewed = members.filter((it) => Math.abs(it.clockSkewMs ?? 0) > largestSkewMs);
  const finding = (
    code: DoctorFinding['code'],
    subject: string,
    problem: string,
    remedy: string,
  ): DoctorFinding => ({ code, severity: 'warning', subject, problem, remedy });
  return [
    ...(isStale
      ? [
          finding(
            'cluster-stale',
            `cluster ${cluster.name}`,
            'This member has been behind the end of the log for longer than stale_after, so it rejects minions and tokens.',
            'Check its connection to the NATS servers, its NATS rights and its disk.',
          ),
        ]
      : []),
    ...(refusesWrites
      ? [
          finding(
            'cluster-alone',
            `cluster ${cluster.name}`,
            'Too few members of the cluster are alive, so this member rejects jobs, key changes and signals.',
            'Start the other members; saltbridge cluster status lists them.',
          ),
        ]
      : []),
    ...(away.length > 0
      ? [
          finding(
            'cluster-member-away',
            formatList(away),
            'These members of the cluster do not respond.',
            'Start them. To remove a member that will not return: saltbridge cluster leave NAME.',
          ),
        ]
      : []),
    ...(failingMs > 0
      ? [
          finding(
            'cluster-log-failing',
            `cluster ${cluster.name}`,
            `The replicated log has accepted no write for ${Math.round(failingMs / 1000)} seconds.`,
            'Check the NATS servers.',
          ),
        ]
      : []),
    ...skewed.map(({ name, clockSkewMs = 0 }) =>
      finding(
        'cluster-clock',
        name,
        `The clock of this member differs from the clock of the queried member by ${Math.round(clockSkewMs / 1000)} seconds.`,
        'Synchronise the clocks (NTP).',
      ),
    ),
    ...warnings.map((it) =>
      finding('cluster-log', `cluster ${cluster.name}`, `${it}.`, 'See docs/cluster.md.'),
    ),
  ];
}

const dayMs = 86_400_000;
/** A certificate is reported if it expires within this number of days. */
const soonDays = 30;
const peekMs = 3000;

/**
 * Checks the certificates of the connections to the NATS servers: certificate files of this master,
 * and certificates that the servers present.
 */
export async function checkClusterCertificates({
  config,
  world,
}: DiagnosticsInput): Promise<DoctorFinding[]> {
  const { cluster } = config.config;
  if (cluster === null) return [];
  const { nats, tlsCa, tlsCert } = cluster;
  const isTls = tlsCa !== undefined || tlsCert !== undefined;
  const servers = nats.filter((it) => isTls || it.startsWith('tls:'));
  const found = await Promise.all([
    ...[tlsCa, tlsCert].map((file) => (file === undefined ? [] : checkFile(file, world.now()))),
    ...servers.map(async (server) => {
      const certificate = await peekCertificate(server).catch(() => undefined);
      return certificate === undefined ? [] : judge(server, certificate, world.now());
    }),
  ]);
  return found.flat();
}

const pemForm = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

async function checkFile(file: string, now: number): Promise<DoctorFinding[]> {
  try {
    const blocks =
      (await readRegularFile(file, configLimits.namedFileBytes)).toString().match(pemForm) ?? [];
    if (blocks.length === 0) return [unreadable(file, 'the file contains no certificate')];
    return blocks.flatMap((text) => judge(file, new X509Certificate(text), now));
  } catch (cause) {
    return [unreadable(file, codeOf(cause) ?? String(cause))];
  }
}

function unreadable(subject: string, why: string): DoctorFinding {
  return {
    code: 'cluster-certificate',
    severity: 'error',
    subject,
    problem: `The certificate cannot be read: ${why}.`,
    remedy: 'Correct tls_ca and tls_cert under saltbridge: cluster:.',
  };
}

function judge(
  subject: string,
  { validFrom, validTo }: X509Certificate,
  now: number,
): DoctorFinding[] {
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
  const days = Math.floor((to - now) / dayMs);
  if (now >= from && days >= soonDays) return [];
  const isGood = now >= from && now < to;
  const problem = isGood
    ? `A certificate expires in ${days} days, at ${new Date(to).toISOString()}.`
    : `A certificate is only valid from ${new Date(from).toISOString()} to ${new Date(to).toISOString()}.`;
  return [
    {
      code: 'cluster-certificate',
      severity: isGood ? 'warning' : 'error',
      subject,
      problem,
      remedy:
        'Renew the certificate. If it is the certificate of the members, restart them one after the other.',
    },
  ];
}

/**
 * Returns the certificate that a server presents before authentication, or `undefined` if it
 * presents none.
 */
async function peekCertificate(server: string): Promise<X509Certificate | undefined> {
  const { hostname, port } = new URL(server);
  const host = hostname.replace(/^\[|\]$/g, '');
  const signal = AbortSignal.timeout(peekMs);
  const socket = connect(Number(port || 4222), host);
  try {
    // The NATS server first sends an INFO line, after which TLS can begin.
    await once(socket, 'data', { signal });
    // Only the validity period is read here, so the certificate is not verified. Members verify it
    // when they connect.
    const secured = connectTls({
      socket,
      rejectUnauthorized: false,
      ...(isIP(host) === 0 ? { servername: host } : {}),
    });
    try {
      await once(secured, 'secureConnect', { signal });
      return secured.getPeerX509Certificate();
    } finally {
      secured.destroy();
    }
  } finally {
    socket.destroy();
  }
}
