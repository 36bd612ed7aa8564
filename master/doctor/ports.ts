import { once } from 'node:events';
import { createServer } from 'node:net';
import type { MasterConfig } from '../config/options.ts';
import { codeOf } from '../system-error.ts';
import type { Patient } from './patient.ts';
import type { DoctorFinding } from './report.ts';

/** Whether both ports can be bound, where no master of ours has them. */
export async function checkPorts({ config, running }: Patient): Promise<DoctorFinding[]> {
  if (running !== undefined) return [];
  const { publishPort, retPort } = config.config;
  const host = hostOf(config.config);
  const findings: DoctorFinding[] = [];
  for (const port of new Set([publishPort, retPort])) {
    const failure = port === 0 ? undefined : await tryBind(host, port);
    if (failure !== undefined) findings.push(describe(host, port, failure));
  }
  return findings;
}

/** Salt's own default address, on the family that `ipv6` asks for. */
function hostOf({ interface: host, ipv6 }: MasterConfig): string {
  return ipv6 === true && host === '0.0.0.0' ? '::' : host;
}

/** @returns the system's code of the failure */
async function tryBind(host: string, port: number): Promise<string | undefined> {
  const server = createServer((connection) => connection.destroy());
  server.listen({ host, port, exclusive: true });
  try {
    await once(server, 'listening');
  } catch (error) {
    return codeOf(error) ?? 'unknown';
  }
  server.close();
  await once(server, 'close');
  return undefined;
}

function describe(host: string, port: number, failure: string): DoctorFinding {
  const subject = `${host}:${port}`;
  return failure === 'EADDRINUSE'
    ? {
        code: 'port-in-use',
        severity: 'error',
        subject,
        problem: 'Another program has the port; no master of this configuration answers.',
        remedy: `Stop it (salt-master?); ss -ltnp 'sport = :${port}' names it.`,
      }
    : {
        code: 'port-unavailable',
        severity: 'error',
        subject,
        problem: `The port cannot be bound (${failure}).`,
        remedy:
          'See that the machine has the address of interface, and that the port is permitted.',
      };
}
