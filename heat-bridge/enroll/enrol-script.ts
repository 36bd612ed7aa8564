/**
 * Shell script in user-data. It installs the minion if cloud-init has not done so, claims the
 * ticket, and reports failures to the bridge.
 */

import { quoteForShell } from '../shell-text.ts';
import { cloudConfigPart } from './cloud-config-part.ts';
import type { EnrolRequest } from './enrolment.ts';
import { renderMultipart } from './mime-multipart.ts';
import { powerShellPart } from './power-shell-part.ts';
import {
  type ClaimServer,
  pkiDirOf,
  toQuotedYaml,
  type UserDataInput,
  type UserDataPart,
} from './user-data-parts.ts';

/** Program that reads the user-data. */
type UserDataFormat = Exclude<NonNullable<EnrolRequest['format']>, 'none'>;

/**
 * Returns the script as a part of user-data.
 * @param configures - whether the script configures and starts the minion; false if cloud-init's
 * module `salt_minion` does this
 */
function shellPart(plan: UserDataInput, { configures }: { configures: boolean }): UserDataPart {
  const { report, keys, claims } = plan;
  const steps = [
    head(plan),
    posting,
    serviceControl,
    ...(configures ? [installing, configuring(plan), ...(keys ? [seeding(keys)] : [])] : []),
    ...(configures ? ['restart_minion\n'] : []),
    ...(claims ? [shellClaimLines(report.statesInstance)] : []),
    'minion_runs || fail "the service $service is not running"\n',
  ];
  return { type: 'text/x-shellscript', name: 'saltbridge.sh', content: steps.join('\n') };
}

function head({ configDir, config, report }: UserDataInput): string {
  return `#!/bin/sh
# Makes this machine a minion of saltbridge, once. Reports failures to the bridge.
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

/** Shell lines that find the address of the metadata agent, over IPv4 or over link-local IPv6. */
const agentAddress = `# The metadata agent of this network identifies the machine.
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
 * Shell lines that define the function `post`, which sends a request to the bridge. If `$pin` is
 * set, the function checks only the public key of the bridge, and neither the host name nor the
 * issuer of the certificate. It sends the body from a file, because every user of the machine can
 * read the arguments of a process.
 */
const posting = `# post PATH: sends $work/body; prints the HTTP status, or 000 without a reply
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

# fail REASON: reports the failure to the bridge, and exits
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
  fi >"$work/log" 2>&1 || fail "the service $service failed to start: $(tail -n 1 "$work/log")"
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
  fi >"$work/log" 2>&1 || fail "cannot install salt-minion: $(tail -n 1 "$work/log")"
fi
`;

function configuring({ config, grains }: UserDataInput): string {
  const more =
    Object.keys(grains).length === 0 ? '' : write('"$config_dir/grains"', toQuotedYaml(grains));
  return `mkdir -p "$config_dir" || fail 'cannot create the configuration directory'
${write('"$config_dir/minion"', toQuotedYaml(config))}${more}`;
}

function seeding({ publicPem, privatePem }: NonNullable<UserDataInput['keys']>): string {
  return `mkdir -p "$pki_dir" || fail 'cannot create the key directory'
${write('"$pki_dir/minion.pem"', privatePem)}${write('"$pki_dir/minion.pub"', publicPem)}`;
}

/**
 * Returns the shell lines that claim the ticket. The bridge accepts only one claim. If the response
 * to this claim is lost, the script repeats the claim, and the bridge rejects the repetition. The
 * script therefore does not treat this rejection as a failure.
 */
function shellClaimLines(statesInstance: boolean): string {
  const instance = statesInstance
    ? `instance=$(cat /var/lib/cloud/data/instance-id 2>/dev/null | tr -cd 'A-Za-z0-9._-')
more=$(printf ',"instance":"%s"' "$instance")`
    : 'more=';
  return `seconds=0
until [ -s "$pki_dir/minion.pub" ]; do
  [ "$seconds" -lt 120 ] || fail 'salt-minion created no key within 120 s'
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
    *) [ -n "$may_be_done" ] || fail "the claim was rejected: $(cat "$work/answer")"; break ;;
  esac
  [ "$wait" -gt 0 ] || fail "the bridge does not respond ($status)"
  sleep "$wait"
done
# Credentials with which programs of this machine call the bridge, readable by root only.
token=$(sed -n 's/.*"token": *"\\([A-Za-z0-9._-]*\\)".*/\\1/p' "$work/answer" 2>/dev/null)
if [ -z "$pin" ] && mkdir -p "$config_dir/saltbridge"; then
  # The agent identifies the machine, so it needs no token.
  printf "url='%s'\\n" "\${url%/enroll}" >"$config_dir/saltbridge/guest.conf"
elif [ -n "$token" ] && mkdir -p "$config_dir/saltbridge"; then
  printf '%s\\n' "$token" >"$config_dir/saltbridge/token"
  printf "url='%s'\\npin='%s'\\n" "\${url%/enroll}/guest" "$pin" >"$config_dir/saltbridge/guest.conf"
fi
`;
}

/** Returns the command that writes a text to a file unchanged. */
function write(file: string, text: string): string {
  const end = 'SALTBRIDGE_END_OF_FILE';
  const body = text.endsWith('\n') ? text : `${text}\n`;
  return `cat >${file} <<'${end}' || fail 'cannot write a file'\n${body}${end}\n`;
}

/**
 * Returns the complete text of the user-data.
 * @param beside - user-data from another source, in any format, which the machine also receives
 */
export function renderUserData(
  format: UserDataFormat,
  plan: UserDataInput,
  beside?: string,
): string {
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
