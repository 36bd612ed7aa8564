/** User-data that makes a machine a minion. */

import { createHash, X509Certificate } from 'node:crypto';
import { stringify } from 'yaml';
import type { KeyPairText } from '#minion-protocol';
import { BridgeError } from '../errors.ts';
import { quoteForShell } from '../shell-text.ts';
import type { EnrolRequest, MinionConfig, UserDataFormat } from './enrolment.ts';

/** What user-data is to bring about on a machine. */
interface UserDataInput {
  /** Folder of the minion's configuration. */
  readonly configDir: string;
  readonly config: MinionConfig;
  /** Grains of the minion's own. */
  readonly grains: MinionConfig;
  /** Whether the machine is to claim for the key that it makes. */
  readonly claims: boolean;
  /** The key pair that the machine is to have, PEM. Absent: it makes one. */
  readonly keys?: { readonly publicPem: string; readonly privatePem: string };
  readonly report: ClaimTarget;
}

/** Where the machine claims, or says why it cannot be a minion. */
interface ClaimTarget {
  /** Absent: the metadata agent of its network. */
  readonly bridge: ClaimServer | undefined;
  readonly ticket: string;
  /** Whether the claim has to state the instance. */
  readonly statesInstance: boolean;
}

/** The bridge as machines reach it themselves. */
interface ClaimServer {
  /** Of the enrolment routes: `https://…/bridge/v1/enroll`. */
  readonly url: string;
  /** SHA-256 of the bridge's public key (SubjectPublicKeyInfo), base64. */
  readonly publicKeyPin: string;
  /** SHA-256 of the bridge's certificate, hex in capitals. */
  readonly certificatePin: string;
}

/** One part of user-data. */
export interface UserDataPart {
  readonly type: 'text/cloud-config' | 'text/x-shellscript' | 'text/plain';
  readonly name: string;
  readonly content: string;
}

/** Where the packages of Linux distributions keep the minion's configuration. */
const defaultConfigDir = '/etc/salt';

/** Where it keeps its keys then; its option `pki_dir` says the same. */
function pkiDirOf(configDir: string): string {
  return `${configDir}/pki/minion`;
}

/** The masters of a minion. */
interface MasterAddress {
  /** Addresses, in the order in which they are tried; they share one key pair. */
  readonly masters: readonly string[];
  /** `ret_port`. */
  readonly requestPort: number;
  /** Fingerprint of the masters' key by `hashType`: hex pairs joined by `:`. */
  readonly fingerprint: string;
  readonly hashType: string;
  /** `zeromq`, `tcp` or `ws`. */
  readonly transport: string;
}

/** Salt's own defaults on the minion's side [salt/config/__init__.py DEFAULT_MINION_OPTS]. */
const minionDefaults = { requestPort: 4506, hashType: 'sha256', transport: 'zeromq' } as const;

/**
 * The configuration of a minion that trusts no other master than these.
 * @param more options that win, but for the id and what pins the master
 */
function buildMinionConfig(
  id: string,
  { masters, requestPort, fingerprint, hashType, transport }: MasterAddress,
  more: MinionConfig = {},
): MinionConfig {
  const [first = '', ...others] = masters;
  return {
    ...(requestPort === minionDefaults.requestPort ? {} : { master_port: requestPort }),
    ...(transport === minionDefaults.transport ? {} : { transport }),
    ...(others.length === 0 ? {} : { master_type: 'failover' }),
    ...more,
    ...(hashType === minionDefaults.hashType ? {} : { hash_type: hashType }),
    id,
    master: others.length === 0 ? first : [first, ...others],
    master_finger: fingerprint,
  };
}

/** As YAML 1.1, which cloud-init and Salt read: every text is quoted, so that none means another. */
function toQuotedYaml(value: unknown): string {
  return stringify(value, {
    version: '1.1',
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    lineWidth: 0,
    aliasDuplicateObjects: false,
  });
}

// cloud-init's module `salt_minion` [cloudinit/config/cc_salt_minion.py].

/**
 * Configures and starts the minion, with its keys where they are given. It has one key of its own
 * at the top, so that it does not meet those of another part when cloud-init merges them.
 */
function cloudConfigPart({ configDir, config, grains, keys }: UserDataInput): UserDataPart {
  const module = {
    ...(configDir === defaultConfigDir ? {} : { config_dir: configDir }),
    conf: config,
    ...(Object.keys(grains).length === 0 ? {} : { grains }),
    ...(keys === undefined
      ? {}
      : {
          public_key: keys.publicPem,
          private_key: keys.privatePem,
          // Its default depends on what the image's package has made already.
          pki_dir: pkiDirOf(configDir),
        }),
  };
  return {
    type: 'text/cloud-config',
    name: 'saltbridge.cfg',
    content: `#cloud-config\n${toQuotedYaml({ salt_minion: module })}`,
  };
}

// MIME multipart [RFC 2046 5.1], which cloud-init and cloudbase-init read.

/** What begins a MIME message of its own. */
const mimeHeader = /^(content-type|mime-version|from \S+)[: ]/i;
/** A part that can be sent as it is: lines of printable ASCII that no transport changes. */
const sevenBitText = /^(?:[\t\x20-\x7e]{0,990}\n)*[\t\x20-\x7e]{0,990}$/;

/**
 * Puts parts together, and beside them user-data that a service passes already, whatever its kind:
 * cloud-init knows it by its first line, and a message of several parts stays one within this one.
 */
export function renderMultipart(parts: readonly UserDataPart[], beside?: string): string {
  const entities = [
    ...(beside === undefined ? [] : [existingUserData(beside)]),
    ...parts.map(mimeEntity),
  ];
  const boundary = boundaryFor(entities);
  const body = entities.map((text) => `--${boundary}\n${text}\n`).join('');
  return `Content-Type: multipart/mixed; boundary="${boundary}"\nMIME-Version: 1.0\n\n${body}--${boundary}--\n`;
}

function existingUserData(content: string): string {
  const isMessage = mimeHeader.test(content);
  return isMessage ? content : mimeEntity({ type: 'text/plain', name: 'user-data', content });
}

function mimeEntity({ type, name, content }: UserDataPart): string {
  const isPlain = sevenBitText.test(content);
  const head = [
    `Content-Type: ${type}; charset="${isPlain ? 'us-ascii' : 'utf-8'}"`,
    'MIME-Version: 1.0',
    `Content-Transfer-Encoding: ${isPlain ? '7bit' : 'base64'}`,
    `Content-Disposition: attachment; filename="${name}"`,
  ];
  return `${head.join('\n')}\n\n${isPlain ? content : base64Lines(content)}`;
}

function base64Lines(content: string): string {
  const text = Buffer.from(content).toString('base64');
  return (text.match(/.{1,76}/g) ?? []).join('\n');
}

/** Stands in none of the parts, because their digest is in it. */
function boundaryFor(entities: readonly string[]): string {
  const digest = createHash('sha256').update(entities.join('\n')).digest('hex');
  return `==saltbridge-${digest.slice(0, 32)}==`;
}

// cloudbase-init on Windows: Windows PowerShell 5.1 and later.

/** Brings up the minion that the image has, with its keys or a claim, and reports what goes wrong. */
function powerShellPart(plan: UserDataInput): UserDataPart {
  const { config, grains, keys, claims, report } = plan;
  const { bridge } = report;
  if (bridge === undefined) throw new TypeError('cloudbase-init claims without an agent');
  const files = [
    ['$conf\\minion.d\\saltbridge.conf', toQuotedYaml(config)],
    ...(Object.keys(grains).length === 0 ? [] : [['$conf\\grains', toQuotedYaml(grains)]]),
    ...(keys === undefined
      ? []
      : [
          ['$pki\\minion.pem', keys.privatePem],
          ['$pki\\minion.pub', keys.publicPem],
        ]),
  ] as const;
  const writing = files
    .map(([file = '', text = '']) => `  Write-Text "${file}" ${quoteForPowerShell(base64(text))}`)
    .join('\n');
  const content = `#ps1_sysnative
# Makes this machine a minion of saltbridge, once; what goes wrong is told to the bridge.
$ErrorActionPreference = 'Stop'
$url = ${quoteForPowerShell(bridge.url)}
$ticket = ${quoteForPowerShell(report.ticket)}
$id = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String(${quoteForPowerShell(base64(String(config.id)))}))
$conf = Join-Path $env:ProgramData 'Salt Project\\Salt\\conf'
if (-not (Test-Path $conf) -and (Test-Path 'C:\\salt\\conf')) { $conf = 'C:\\salt\\conf' }
$pki = Join-Path $conf 'pki\\minion'
${pinning(bridge.certificatePin)}
function Write-Text([string] $file, [string] $base64) {
  New-Item -ItemType Directory -Force -Path (Split-Path $file) | Out-Null
  [IO.File]::WriteAllBytes($file, [Convert]::FromBase64String($base64))
}

function Send-Body([string] $path, [hashtable] $body) {
  $json = [Text.Encoding]::UTF8.GetBytes((ConvertTo-Json $body -Compress))
  Invoke-RestMethod -Method Post -Uri "$url/$path" -Body $json -ContentType 'application/json' -TimeoutSec 30
}

try {
  if (-not (Get-Service 'salt-minion' -ErrorAction SilentlyContinue)) { throw 'there is no service salt-minion in this image' }
${writing}
  Restart-Service 'salt-minion'
${claims ? powerShellClaimLines(report.statesInstance) : ''}  if ((Get-Service 'salt-minion').Status -ne 'Running') { throw 'the service salt-minion does not run' }
} catch {
  $reason = "$($_.Exception.Message)"
  if ($reason.Length -gt 400) { $reason = $reason.Substring(0, 400) }
  try { Send-Body 'failure' @{ ticket = $ticket; id = $id; reason = $reason } } catch { }
  exit 1
}
`;
  return { type: 'text/x-shellscript', name: 'saltbridge.ps1', content };
}

/** By code that is compiled: a script block cannot be called from the threads that ask. */
function pinning(certificatePin: string): string {
  return `[Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
Add-Type -TypeDefinition @'
using System;
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
public static class SaltbridgePin {
  public static bool Check(object sender, X509Certificate certificate, X509Chain chain, SslPolicyErrors errors) {
    using (var sha = SHA256.Create()) {
      var digest = BitConverter.ToString(sha.ComputeHash(certificate.GetRawCertData())).Replace("-", "");
      return digest == "${certificatePin}";
    }
  }
  public static void Use() {
    System.Net.ServicePointManager.ServerCertificateValidationCallback = Check;
  }
}
'@
[SaltbridgePin]::Use()
`;
}

function powerShellClaimLines(statesInstance: boolean): string {
  const instance = statesInstance
    ? `  $claim.instance = (Get-ChildItem 'HKLM:\\SOFTWARE\\Cloudbase Solutions\\Cloudbase-Init' | Select-Object -Last 1).PSChildName\n`
    : '';
  return `  $deadline = (Get-Date).AddSeconds(120)
  while (-not (Test-Path "$pki\\minion.pub")) {
    if ((Get-Date) -gt $deadline) { throw 'salt-minion has made no key in 120 s' }
    Start-Sleep -Seconds 1
  }
  $lines = Get-Content "$pki\\minion.pub" | Where-Object { $_ -ne '' -and -not $_.StartsWith('-') }
  $text = [Text.Encoding]::ASCII.GetBytes((($lines | ForEach-Object { "$_\`n" }) -join ''))
  $digest = [Security.Cryptography.SHA256]::Create().ComputeHash($text)
  $claim = @{ ticket = $ticket; id = $id; fingerprint = [BitConverter]::ToString($digest).Replace('-', '').ToLower() }
${instance}  $mayBeDone = $false
  foreach ($wait in 1, 2, 5, 10, 30, 30, 60, 60, 60, 0) {
    try {
      Send-Body 'claim' $claim | Out-Null
      break
    } catch {
      $status = 0
      if ($_.Exception.Response) { $status = [int] $_.Exception.Response.StatusCode }
      if ($status -ge 400 -and $status -lt 500 -and $status -ne 429) {
        if ($mayBeDone) { break }
        throw "the claim was refused ($status)"
      }
      if ($status -eq 0) { $mayBeDone = $true }
      if ($wait -eq 0) { throw 'the bridge does not answer' }
      Start-Sleep -Seconds $wait
    }
  }
`;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** A text of PowerShell in which nothing is expanded. */
function quoteForPowerShell(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

// The shell script: for machines without the module `salt_minion`, and to claim and report.

/** @param configures false: the module `salt_minion` has configured and started the minion */
function shellPart(plan: UserDataInput, { configures }: { configures: boolean }): UserDataPart {
  const { report, keys, claims } = plan;
  const steps = [
    head(plan),
    posting,
    serviceControl,
    ...(configures ? [installing, configuring(plan), ...(keys ? [seeding(keys)] : [])] : []),
    ...(configures ? ['restart_minion\n'] : []),
    ...(claims ? [shellClaimLines(report.statesInstance)] : []),
    'minion_runs || fail "the service $service does not run"\n',
  ];
  return { type: 'text/x-shellscript', name: 'saltbridge.sh', content: steps.join('\n') };
}

function head({ configDir, config, report }: UserDataInput): string {
  return `#!/bin/sh
# Makes this machine a minion of saltbridge, once; what goes wrong is told to the bridge.
umask 077
${report.bridge === undefined ? agentAddress : bridgeAddress(report.bridge)}ticket=${quoteForShell(report.ticket)}
id_json=${quoteForShell(JSON.stringify(config.id))}
config_dir=${quoteForShell(configDir)}
pki_dir=${quoteForShell(pkiDirOf(configDir))}
service='salt-minion'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
`;
}

function bridgeAddress({ url, publicKeyPin }: ClaimServer): string {
  return `url=${quoteForShell(url)}
pin=${quoteForShell(`sha256//${publicKeyPin}`)}
`;
}

/** A network may have IPv4, or links alone. */
const agentAddress = `# The metadata agent of this network knows the machine.
pin=
export no_proxy='*'
find_agent() {
  set -f
  for host in 169.254.169.254 $(ls /sys/class/net 2>/dev/null | sed 's/.*/[fe80::a9fe:a9fe%25&]/'); do
    url="http://$host/saltbridge/v1/enroll"
    curl --silent --globoff --max-time 10 --output /dev/null "http://$host/" && break
    url='http://169.254.169.254/saltbridge/v1/enroll'
  done
  set +f
}
find_agent
`;

/**
 * The pin is on the bridge's public key, so that it may be reached by any address. Bodies go by
 * file, because arguments can be read by everybody on the machine.
 */
const posting = `# post PATH: sends $work/body; prints the status, 000 where there was no answer
post() {
  if command -v curl >/dev/null 2>&1; then
    curl --silent --globoff \${pin:+--insecure --pinnedpubkey "$pin"} --max-time 30 \\
      --header 'Content-Type: application/json' --data-binary "@$work/body" \\
      --output "$work/answer" --write-out '%{http_code}' "$url/$1"
  else
    wget --quiet \${pin:+--no-check-certificate --pinnedpubkey="$pin"} --timeout=30 --tries=1 \\
      --header='Content-Type: application/json' --post-file="$work/body" \\
      --content-on-error --output-document="$work/answer" "$url/$1"
    case $? in
      0) printf 200 ;;
      8) printf 400 ;;
      *) printf 000 ;;
    esac
  fi
}

# fail REASON: tells the bridge, and ends
fail() {
  echo "saltbridge: $1" >&2
  reason=$(printf '%s' "$1" | tr -cd 'A-Za-z0-9 ._:;,/()=-' | cut -c 1-400)
  printf '{"ticket":"%s","id":%s,"reason":"%s"}' "$ticket" "$id_json" "$reason" >"$work/body"
  for wait in 1 5 15 0; do
    status=$(post failure)
    case $status in 2??|4??) break ;; esac
    sleep "$wait"
  done
  exit 1
}
`;

const serviceControl = `restart_minion() {
  if command -v service >/dev/null 2>&1; then service "$service" restart
  else systemctl restart "$service"
  fi >"$work/log" 2>&1 || fail "the service $service does not start: $(tail -n 1 "$work/log")"
}

minion_runs() {
  if command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
    systemctl is-active --quiet "$service"
  else
    service "$service" status >/dev/null 2>&1
  fi
}
`;

const installing = `if ! command -v salt-minion >/dev/null 2>&1; then
  if command -v apt-get >/dev/null 2>&1; then
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y salt-minion; }
  elif command -v dnf >/dev/null 2>&1; then dnf install -y salt-minion
  elif command -v yum >/dev/null 2>&1; then yum install -y salt-minion
  elif command -v zypper >/dev/null 2>&1; then zypper --non-interactive install salt-minion
  else false
  fi >"$work/log" 2>&1 || fail "salt-minion cannot be installed: $(tail -n 1 "$work/log")"
fi
`;

function configuring({ config, grains }: UserDataInput): string {
  const more =
    Object.keys(grains).length === 0 ? '' : write('"$config_dir/grains"', toQuotedYaml(grains));
  return `mkdir -p "$config_dir" || fail 'the directory of the configuration cannot be made'
${write('"$config_dir/minion"', toQuotedYaml(config))}${more}`;
}

function seeding({ publicPem, privatePem }: NonNullable<UserDataInput['keys']>): string {
  return `mkdir -p "$pki_dir" || fail 'the directory of the keys cannot be made'
${write('"$pki_dir/minion.pem"', privatePem)}${write('"$pki_dir/minion.pub"', publicPem)}`;
}

/** The bridge answers 200 once; when that answer is lost, the same claim is refused later. */
function shellClaimLines(statesInstance: boolean): string {
  const instance = statesInstance
    ? `instance=$(cat /var/lib/cloud/data/instance-id 2>/dev/null | tr -cd 'A-Za-z0-9._-')
more=$(printf ',"instance":"%s"' "$instance")`
    : 'more=';
  return `seconds=0
until [ -s "$pki_dir/minion.pub" ]; do
  [ "$seconds" -lt 120 ] || fail 'salt-minion has made no key in 120 s'
  sleep 1
  seconds=$((seconds + 1))
done
${instance}
fingerprint=$(grep -v -e '^-' -e '^$' "$pki_dir/minion.pub" | sha256sum | cut -c 1-64)
printf '{"ticket":"%s","id":%s,"fingerprint":"%s"%s}' \\
  "$ticket" "$id_json" "$fingerprint" "$more" >"$work/body"
may_be_done=
for wait in 1 2 5 10 30 30 60 60 60 0; do
  status=$(post claim)
  case $status in
    200) may_be_done=; break ;;
    000) may_be_done=yes ;;
    429|5??) ;;
    *) [ -n "$may_be_done" ] || fail "the claim was refused: $(cat "$work/answer")"; break ;;
  esac
  [ "$wait" -gt 0 ] || fail "the bridge does not answer ($status)"
  sleep "$wait"
done
# What programs of this machine call the bridge with, for root alone.
token=$(sed -n 's/.*"token": *"\\([A-Za-z0-9._-]*\\)".*/\\1/p' "$work/answer" 2>/dev/null)
if [ -z "$pin" ] && mkdir -p "$config_dir/saltbridge"; then
  # The agent knows the machine, which has no token.
  printf "url='%s'\\n" "\${url%/enroll}" >"$config_dir/saltbridge/guest.conf"
elif [ -n "$token" ] && mkdir -p "$config_dir/saltbridge"; then
  printf '%s\\n' "$token" >"$config_dir/saltbridge/token"
  printf "url='%s'\\npin='%s'\\n" "\${url%/enroll}/guest" "$pin" >"$config_dir/saltbridge/guest.conf"
fi
`;
}

/** Text into a file, as it is. */
function write(file: string, text: string): string {
  const end = 'SALTBRIDGE_END_OF_FILE';
  const body = text.endsWith('\n') ? text : `${text}\n`;
  return `cat >${file} <<'${end}' || fail 'a file cannot be written'\n${body}${end}\n`;
}

/**
 * The text of user-data.
 * @param beside what the service passes to the machine already, of whatever kind
 */
function renderUserData(format: UserDataFormat, plan: UserDataInput, beside?: string): string {
  const parts = userDataPartsOf(format, plan);
  const [first, ...others] = parts;
  const isOne = first !== undefined && others.length === 0 && beside === undefined;
  return isOne ? first.content : renderMultipart(parts, beside);
}

function userDataPartsOf(format: UserDataFormat, plan: UserDataInput): readonly UserDataPart[] {
  switch (format) {
    case 'cloud-init':
      return [cloudConfigPart(plan), shellPart(plan, { configures: false })];
    case 'shell':
      return [shellPart(plan, { configures: true })];
    case 'cloudbase-init':
      return [powerShellPart(plan)];
  }
}

// The whole user-data.

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

  /** @param secrets of this one machine @throws BridgeError ERR_ENROLL_OFF */
  write(
    request: EnrolRequest,
    { ticket, keys }: { readonly ticket: string; readonly keys: KeyPairText | undefined },
  ): string {
    const { id, by = 'claim', format = 'cloud-init', instance, beside } = request;
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
