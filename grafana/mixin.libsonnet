// Dashboards, alerts and recording rules as a monitoring mixin. Written by `python -m grafana`.
local groups(files) = std.flatMap(function(file) std.parseYaml(file).groups, files);

{
  grafanaDashboards+:: {
    'spec-decode-overview.json': import 'dashboards/spec-decode-overview.json',
    'spec-decode-engine.json': import 'dashboards/spec-decode-engine.json',
    'spec-decode-experiments.json': import 'dashboards/spec-decode-experiments.json',
    'spec-decode-requests.json': import 'dashboards/spec-decode-requests.json',
    'spec-decode-exporter.json': import 'dashboards/spec-decode-exporter.json',
  },

  prometheusAlerts+:: {
    groups+: groups([
      importstr '../config/prometheus/alerts/drops.yml',
      importstr '../config/prometheus/alerts/exporter.yml',
      importstr '../config/prometheus/alerts/pay.yml',
      importstr '../config/prometheus/alerts/requests.yml',
      importstr '../config/prometheus/alerts/server.yml',
      importstr '../config/prometheus/alerts/trust.yml',
    ]),
  },

  prometheusRules+:: {
    groups+: groups([
      importstr '../config/prometheus/rules/aggregates.yml',
      importstr '../config/prometheus/rules/arms.yml',
      importstr '../config/prometheus/rules/peers.yml',
      importstr '../config/prometheus/rules/server.yml',
    ]),
  },
}
